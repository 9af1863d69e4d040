"""The tables: each job's rate and cost, how many times as fast ours is, and the latencies."""

from bench.machine import QUIET_CORES
from bench.samples import Spread
from bench.spark.jobs import GOALS, LATENCY_LIMIT_MS, OURS, Goal
from bench.spark.samples import Results


def text_tables(results: Results) -> str:
    """The report for a terminal."""
    machine = results.machine
    lines = [
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb} GB, Linux {machine.kernel}, "
        f"Python {machine.python}; {results.date}",
        *(f"{name}: {version}" for name, version in results.versions.items()),
        f"command: {results.command}",
        *_noise(results),
        "",
        *_rates(results),
        *_ratios(results),
        *_latencies(results),
    ]
    return "\n".join([*lines, *(f"failed: {failure}" for failure in results.failures)])


def goals(results: Results) -> list[tuple[int, Goal, Spread, Spread]]:
    """Size, goal, and how many times as fast and as thrifty, for everything that was measured."""
    found: list[tuple[int, Goal, Spread, Spread]] = []
    for size in dict.fromkeys(rate.size for rate in results.rates):
        for goal in GOALS:
            ratio = results.ratio(size, goal.job, goal.against)
            thrift = results.cpu_ratio(size, goal.job, goal.against)
            if ratio is not None and thrift is not None:
                found.append((size, goal, ratio, thrift))
    return found


def missed(results: Results) -> list[str]:
    """The goals that were not reached, in words."""
    lines = [
        f"{goal.job} is {ratio.median:.2f}x {goal.against} at {size} B, floor {goal.floor:g}x"
        for size, goal, ratio, _ in goals(results)
        if ratio.median < goal.floor
    ]
    for job in dict.fromkeys(latency.job for latency in results.latencies):
        p50 = Spread.of([latency.p50_ms for latency in results.latency(job)])
        if job.endswith(OURS) and p50.median > LATENCY_LIMIT_MS:
            lines.append(
                f"{job}: half of the records need {p50.median:.0f} ms, limit {LATENCY_LIMIT_MS:g} ms"
            )
    return lines


def _rates(results: Results) -> list[str]:
    rows = list(dict.fromkeys((rate.size, rate.job) for rate in results.rates))
    if not rows:
        return []
    lines = [f"{'':8}{'':48}{'rows/s':>12}{'least .. most':>26}{'CPU s / million':>18}"]
    for size, job in sorted(rows, key=lambda row: row[0]):
        rates = results.of(job, size)
        speed = Spread.of([rate.rows_per_s for rate in rates])
        cpu = Spread.of([rate.cpu_s_per_million for rate in rates])
        span = f"{speed.least:,.0f} .. {speed.most:,.0f}"
        lines.append(f"{_size(size):8}{job:48}{speed.median:>12,.0f}{span:>26}{cpu.median:>18.3f}")
    return [*lines, ""]


def _ratios(results: Results) -> list[str]:
    found = goals(results)
    if not found:
        return []
    head = f"{'':8}{'times as fast':76}{'median':>8}{'least .. most':>16}{'floor':>8}{'CPU':>9}"
    lines = [head]
    for size, goal, ratio, thrift in found:
        words = f"{goal.job} / {goal.against}"
        span = f"{ratio.least:.2f} .. {ratio.most:.2f}"
        verdict = "ok" if ratio.median >= goal.floor else "BELOW THE FLOOR"
        against_floor = f"{goal.floor:>7g}x{thrift.median:>8.2f}x {verdict}"
        if not goal.floor:
            against_floor = f"{'':8}{thrift.median:>8.2f}x"
        lines.append(f"{_size(size):8}{words:76}{ratio.median:>7.2f}x{span:>16}{against_floor}")
    return [*lines, "", "CPU: how many times the CPU seconds of the first job the second takes.", ""]


def _latencies(results: Results) -> list[str]:
    jobs = list(dict.fromkeys(latency.job for latency in results.latencies))
    if not jobs:
        return []
    lines = [
        f"{'':8}{'topic to topic, ms':48}{'p50':>8}{'least .. most':>18}{'p99':>10}{'CPU ms a batch':>18}"
    ]
    for job in jobs:
        taken = results.latency(job)
        p50, p99 = Spread.of([one.p50_ms for one in taken]), Spread.of([one.p99_ms for one in taken])
        cpu = Spread.of([one.cpu_ms_a_batch for one in taken])
        span = f"{p50.least:,.0f} .. {p50.most:,.0f}"
        lines.append(f"{'':8}{job:48}{p50.median:>8,.0f}{span:>18}{p99.median:>10,.0f}{cpu.median:>18,.0f}")
    return lines


def _size(size: int) -> str:
    return f"{size} B" if size < 1000 else f"{size / 1000:g} KB"


def _noise(results: Results) -> list[str]:
    noisy, taken = results.noisy()
    if not noisy:
        return []
    return [
        f"PROVISIONAL: {noisy} of {taken} samples were taken while others used {QUIET_CORES} cores or more. "
        "Ratios of runs that followed each other say more than rates; quote neither."
    ]
