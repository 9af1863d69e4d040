"""The table: figures of both brokers with their spread, how many times better, and whether that is enough."""

from dataclasses import dataclass

from bench.brokers import EVERLOG, KAFKA
from bench.cluster.metrics import METRICS as CLUSTER_METRICS
from bench.machine import QUIET_CORES
from bench.metrics import Goal, Metric, Verdict
from bench.samples import Results, Spread
from bench.scenarios import METRICS

_HEAD = ("", EVERLOG.title, KAFKA.title, "times better", "floor", "want", "quiet", "")


@dataclass(frozen=True, slots=True)
class Row:
    """One metric with what was found."""

    metric: Metric
    everlog: Spread | None
    kafka: Spread | None
    advantage: Spread | None
    """The ratio of the medians, and the least and most of the ratios of runs that followed each other."""
    verdict: Verdict
    quiet: tuple[int, int]
    """Samples that were taken on a quiet machine, and all."""

    @property
    def provisional(self) -> bool:
        """Whether others were busy during a sample, which does not slow both brokers alike."""
        return self.quiet[0] < self.quiet[1]


def rows(results: Results) -> list[Row]:
    """The rows of all metrics that have at least one sample."""
    found = [_row(metric, results) for metric in (*METRICS, *CLUSTER_METRICS)]
    return [row for row in found if row.everlog or row.kafka]


def missed(results: Results) -> list[Row]:
    """The rows whose floor was not reached."""
    return [row for row in rows(results) if row.verdict is Verdict.MISSED]


def provisional(results: Results) -> list[Row]:
    """The rows that no claim can stand on, as others were busy during some sample."""
    return [row for row in rows(results) if row.provisional]


def text_table(results: Results) -> str:
    """The report for a terminal."""
    lines = [
        _HEAD,
        *(_cells(row) for row in rows(results)),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    table = [_line(line, widths) for line in lines]
    table.insert(1, "-" * len(table[0]))
    return "\n".join([*_head(results), "", *table, *_foot(results)])


def markdown_table(results: Results) -> str:
    """The report's table for a document."""
    rule = ("---", *("--:" for _ in _HEAD[1:]))
    lines = [_HEAD, rule, *(_cells(row) for row in rows(results))]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([table, *(f"\n{line}" for line in _noise(results))])


def _head(results: Results) -> list[str]:
    machine = results.machine
    foreign = results.foreign_cores()
    lines = [
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb} GB, Linux {machine.kernel}, "
        f"Python {machine.python}; {results.date}",
        *(f"{name}: {version}" for name, version in results.versions.items()),
        f"command: {results.command}",
    ]
    if foreign is not None:
        lines.append(
            f"foreign CPU during the samples: {foreign.median:.2f} cores "
            f"[{foreign.least:.2f}..{foreign.most:.2f}]"
        )
    return [*lines, *_noise(results)]


def _noise(results: Results) -> list[str]:
    quiet, taken = results.all_quiet()
    if quiet == taken:
        return []
    return [
        f"PROVISIONAL: {taken - quiet} of {taken} samples were taken while others used {QUIET_CORES} cores "
        "or more. Rows marked ? tell of the machine as much as of the brokers: do not quote them."
    ]


def _foot(results: Results) -> list[str]:
    lost = missed(results)
    lines = [""] if lost or results.failures else []
    lines += [f"below the floor: {row.metric.label}, {row.metric.unit}" for row in lost]
    return lines + [f"failed: {failure}" for failure in results.failures]


def _row(metric: Metric, results: Results) -> Row:
    ours, theirs = results.values(metric.key, EVERLOG.name), results.values(metric.key, KAFKA.name)
    everlog = Spread.of(ours) if ours else None
    kafka = Spread.of(theirs) if theirs else None
    advantage = None
    if everlog and kafka:
        pairs = [metric.advantage(one, other) for one, other in zip(ours, theirs, strict=False)]
        advantage = Spread(metric.advantage(everlog.median, kafka.median), min(pairs), max(pairs))
    verdict = Verdict.NONE
    if everlog:
        verdict = metric.verdict(everlog.median, advantage.median if advantage else None)
    return Row(metric, everlog, kafka, advantage, verdict, results.quiet(metric.key))


def _cells(row: Row) -> tuple[str, ...]:
    metric = row.metric
    ratio = "-"
    if row.advantage:
        ratio = f"{row.advantage.median:.2f}x [{row.advantage.least:.2f}..{row.advantage.most:.2f}]"
    floor, want = ("-", "-") if metric.goal is None else _goal(metric.goal, metric.unit)
    label = f"{metric.label}, {metric.unit}"
    verdict = f"{row.verdict.value} ?".lstrip() if row.provisional else row.verdict.value
    quiet = f"{row.quiet[0]}/{row.quiet[1]}"
    return label, _spread(row.everlog), _spread(row.kafka), ratio, floor, want, quiet, verdict


def _goal(goal: Goal, unit: str) -> tuple[str, str]:
    if goal.absolute:
        return f"{goal.floor:g} {unit}", f"{goal.want:g} {unit}"
    return f"{goal.floor:.3g}x", f"{goal.want:.3g}x"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return f"{figure(spread.median)} [{figure(spread.least)}..{figure(spread.most)}]"


def figure(value: float) -> str:
    """A value in about three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    label, *figures = cells
    padded = [
        label.ljust(widths[0]),
        *(cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True)),
    ]
    return "  ".join(padded).rstrip()
