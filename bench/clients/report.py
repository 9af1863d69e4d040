"""The tables: each program's rate and cost, and how many times as fast ours is as it should be."""

from bench.clients.jobs import WORKS, Goal
from bench.clients.samples import Results
from bench.machine import QUIET_CORES
from bench.samples import Spread

_COLUMNS_WANT = 10.0
"""Goals as high as this are those of columns."""


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
        f"{'':10}{'':8}{'':30}{'records/s':>13}{'least .. most':>26}{'CPU s / million':>18}{'the broker':>12}"
        f"{'quiet':>8}",
    ]
    for broker, work, size, program in _rows(results):
        samples = results.of(broker, work, size, program)
        rate = Spread.of([sample.records_per_s for sample in samples])
        cpu = Spread.of([sample.cpu_s_per_million for sample in samples])
        theirs = Spread.of([sample.broker_cpu_s_per_million for sample in samples])
        span = f"{rate.least:,.0f} .. {rate.most:,.0f}"
        quiet = f"{sum(sample.quiet for sample in samples)}/{len(samples)}"
        lines.append(
            f"{broker:10}{_size(size):8}{program:30}{rate.median:>13,.0f}{span:>26}{cpu.median:>18.3f}"
            f"{theirs.median:>12.3f}{quiet:>8}"
        )
    lines += [
        "",
        f"{'':10}{'':8}{'times as fast':58}{'median':>9}{'least .. most':>20}{'floor':>8}{'want':>7}"
        f"{'by CPU':>9}",
    ]
    for broker, work, size, goal, ratio in goals(results):
        less = results.cpu_ratio(broker, work, size, goal.program, goal.against)
        by_cpu = "" if less is None else f"{less.median:.2f}x"
        words = f"{goal.program} by {goal.against}"
        span = f"{ratio.least:.2f} .. {ratio.most:.2f}"
        lines.append(
            f"{broker:10}{_size(size):8}{words:58}{ratio.median:>8.2f}x{span:>20}{goal.floor:>7g}x"
            f"{goal.want:>6g}x{by_cpu:>9} {_verdict(goal, ratio)}"
        )
    if bounds := _bounds(results):
        lines += ["", "beside bare sockets, which do nothing with the bytes", *bounds]
    return "\n".join([*lines, *(f"failed: {failure}" for failure in results.failures)])


def _bounds(results: Results) -> list[str]:
    """For each goal of columns: how far a bare socket is from the other client, and ours from it."""
    lines: list[str] = []
    bounds = {work.name: work.bound for work in WORKS}
    for broker, work, size, goal, _ in goals(results):
        bound = bounds[work]
        most = results.ratio(broker, work, size, bound, goal.against)
        share = results.ratio(broker, work, size, goal.program, bound)
        cpu = results.cpu_ratio(broker, work, size, bound, goal.against)
        if goal.want < _COLUMNS_WANT or most is None or share is None or cpu is None:
            continue
        lines.append(
            f"{broker:10}{_size(size):8}{bound} is {most.median:.2f}x {goal.against}, "
            f"{cpu.median:.2f}x by CPU; {goal.program} has {share.median:.0%} of its rate"
        )
    return lines


def goals(results: Results) -> list[tuple[str, str, int, Goal, Spread]]:
    """Broker, work, size, goal and ratio of everything that has a goal and was measured."""
    found: list[tuple[str, str, int, Goal, Spread]] = []
    places = dict.fromkeys((sample.broker, sample.size) for sample in results.samples)
    for broker, size in places:
        for work in WORKS:
            for goal in work.goals:
                ratio = results.ratio(broker, work.name, size, goal.program, goal.against)
                if ratio is not None:
                    found.append((broker, work.name, size, goal, ratio))
    return found


def missed(results: Results) -> list[str]:
    """The goals whose floor was not reached, in words."""
    return [
        f"{goal.program} is {ratio.median:.2f}x {goal.against} on {broker} at {size} B, floor {goal.floor:g}x"
        for broker, _, size, goal, ratio in goals(results)
        if ratio.median < goal.floor
    ]


def _rows(results: Results) -> list[tuple[str, str, int, str]]:
    return list(
        dict.fromkeys((sample.broker, sample.work, sample.size, sample.program) for sample in results.samples)
    )


def _size(size: int) -> str:
    return f"{size} B" if size < 1000 else f"{size / 1000:g} KB"


def _verdict(goal: Goal, ratio: Spread) -> str:
    if ratio.median >= goal.want:
        return "as wanted"
    return "above the floor" if ratio.median >= goal.floor else "BELOW THE FLOOR"


def _noise(results: Results) -> list[str]:
    noisy = sum(not sample.quiet for sample in results.samples)
    if not noisy:
        return []
    return [
        f"PROVISIONAL: {noisy} of {len(results.samples)} samples were taken while others used {QUIET_CORES} "
        "cores or more. Ratios of runs that followed each other say more than rates; quote neither."
    ]
