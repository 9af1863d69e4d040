"""A timeline as SVG: records a second, how long answers took, who was in sync; and what was broken when."""

from collections.abc import Iterable, Sequence
from html import escape

from everlog.chaos.measures import percentile, rate_by_interval
from everlog.chaos.notes import Notes, StepDone
from everlog.chaos.verdict import broken_spans

WIDTH = 1120
_LEFT, _RIGHT, _TOP = 64, 16, 76
_PANEL, _GAP = 130, 38
_INTERVAL_MS = 250.0
_ROW = 16


class _Axis:
    """Where a moment stands."""

    def __init__(self, end_ms: float) -> None:
        self.end_ms = max(1.0, end_ms)

    def x(self, at_ms: float) -> float:
        share = min(1.0, max(0.0, at_ms / self.end_ms))
        return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

    def ticks(self) -> list[float]:
        """Moments that are marked, ten or so."""
        for step in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600):
            if self.end_ms / 1000 / step <= 14:
                break
        return [second * 1000.0 for second in range(0, int(self.end_ms / 1000) + 1, step)]


def timeline(notes: Notes) -> str:
    """The whole chart as one SVG element that needs nothing else."""
    end_ms = max([step.end_ms for step in notes.steps], default=1.0)
    axis = _Axis(end_ms)
    partitions = sorted({seen.partition for seen in notes.seen})
    rows_top = _TOP + 3 * (_PANEL + _GAP)
    height = rows_top + len(partitions) * _ROW + 44
    parts = [
        f'<svg class="timeline" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="what happened in the course of the run" xmlns="http://www.w3.org/2000/svg">',
        *_broken(axis, notes.steps, height),
        *_marks(axis, notes.steps, height),
    ]
    acks = rate_by_interval((each.acked_ms for each in notes.acked), _INTERVAL_MS, end_ms)
    reads = rate_by_interval((each.at_ms for each in notes.handed), _INTERVAL_MS, end_ms)
    parts += _panel(axis, _TOP, "records acknowledged a second", acks, "acks")
    parts += _panel(
        axis,
        _TOP + _PANEL + _GAP,
        "ms until a record was acknowledged, the slowest",
        _slowest(notes, end_ms),
        "slow",
    )
    parts += _panel(axis, _TOP + 2 * (_PANEL + _GAP), "records read by the group a second", reads, "reads")
    parts += _isr_rows(axis, notes, partitions, rows_top)
    bottom = height - 24
    for tick in axis.ticks():
        x = axis.x(tick)
        parts.append(f'<text class="tick" x="{x}" y="{bottom}" text-anchor="middle">{tick / 1000:g} s</text>')
    parts.append("</svg>")
    return "\n".join(parts)


def _slowest(notes: Notes, end_ms: float) -> list[float]:
    """For each interval, by the time of sending, how long the slowest record took."""
    slots: list[list[float]] = [[] for _ in range(int(end_ms / _INTERVAL_MS) + 1)]
    for each in notes.acked:
        slot = int(each.sent_ms / _INTERVAL_MS)
        if 0 <= slot < len(slots):
            slots[slot].append(each.acked_ms - each.sent_ms)
    return [percentile(slot, 1.0) or 0.0 for slot in slots]


def _panel(axis: _Axis, top: float, title: str, values: Sequence[float], kind: str) -> Iterable[str]:
    # What was held up comes at once when it can: a burst is cut off, or all the rest would be a flat line.
    usual = percentile((value for value in values if value), 0.9) or 0.0
    highest = _round_up(
        max(values, default=0.0) if kind == "slow" else min(3 * usual, max(values, default=0.0))
    )
    base = top + _PANEL

    def y(value: float) -> float:
        return round(base - min(1.0, value / highest) * (_PANEL - 14), 1)

    yield f'<text class="title" x="{_LEFT}" y="{top - 6}">{escape(title)}</text>'
    for share in (0.0, 0.5, 1.0):
        level = y(share * highest)
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{level}" y2="{level}"/>'
        amount = f"{share * highest:,.10g}"
        yield f'<text class="tick" x="{_LEFT - 6}" y="{level + 4}" text-anchor="end">{amount}</text>'
    points = [f"{axis.x(0)},{base}"]
    for slot, value in enumerate(values):
        begin, end = slot * _INTERVAL_MS, min((slot + 1) * _INTERVAL_MS, axis.end_ms)
        points += [f"{axis.x(begin)},{y(value)}", f"{axis.x(end)},{y(value)}"]
    points.append(f"{axis.x(axis.end_ms)},{base}")
    yield f'<polygon class="{kind}" points="{" ".join(points)}"/>'


def _isr_rows(axis: _Axis, notes: Notes, partitions: Sequence[int], top: float) -> Iterable[str]:
    """A row a partition: how many are in sync as shades, the leader as a number where it changes."""
    yield f'<text class="title" x="{_LEFT}" y="{top - 6}">leader and in-sync replicas by partition</text>'
    full = max((len(seen.isr) for seen in notes.seen), default=1)
    for row, partition in enumerate(partitions):
        y = top + row * _ROW
        changes = [seen for seen in notes.seen if seen.partition == partition]
        yield f'<text class="tick" x="{_LEFT - 6}" y="{y + 12}" text-anchor="end">{partition}</text>'
        for at, seen in enumerate(changes):
            begin = 0.0 if at == 0 else seen.at_ms
            end = changes[at + 1].at_ms if at + 1 < len(changes) else axis.end_ms
            x, width = axis.x(begin), max(0.5, axis.x(end) - axis.x(begin))
            missing = min(3, full - len(seen.isr)) if seen.leader >= 0 else 9
            led = "nobody leads" if seen.leader < 0 else f"broker {seen.leader} leads"
            span = f"{begin / 1000:.1f} to {end / 1000:.1f} s"
            words = f"partition {partition}, {span}: {led}, in sync {_listed(seen.isr)}"
            yield (
                f'<rect class="isr missing-{missing}" x="{x}" y="{y}" width="{width:.1f}" '
                f'height="{_ROW - 3}">'
                f"<title>{escape(words)}</title></rect>"
            )
            if width > 14 and seen.leader >= 0 and (at == 0 or changes[at - 1].leader != seen.leader):
                yield f'<text class="leader" x="{x + 4}" y="{y + 10.5}">{seen.leader}</text>'


def _broken(axis: _Axis, steps: Sequence[StepDone], height: float) -> Iterable[str]:
    for begin, end, words in broken_spans(steps):
        x, width = axis.x(begin), max(1.0, axis.x(end) - axis.x(begin))
        yield (
            f'<rect class="broken" x="{x}" y="{_TOP - 14}" width="{width:.1f}" height="{height - _TOP - 26}">'
            f"<title>{escape(words)}: {begin / 1000:.1f} to {end / 1000:.1f} s</title></rect>"
        )


def _marks(axis: _Axis, steps: Sequence[StepDone], height: float) -> Iterable[str]:
    """A line for each thing that was done, with its name; names that would overlap stand in other rows."""
    taken = [-1e9] * 4
    for step in steps:
        if step.step.startswith("load"):
            continue
        x = axis.x(step.begin_ms)
        words = step.step if step.node is None else f"{step.step} ({step.node})"
        width = 6.3 * len(words) + 10
        anchor = "end" if x > WIDTH - _RIGHT - width else "start"
        begin = x - width if anchor == "end" else x
        row = next((at for at, last in enumerate(taken) if begin >= last), len(taken) - 1)
        taken[row] = begin + width
        y = 14 + row * 13
        yield f'<line class="mark" x1="{x}" x2="{x}" y1="{y + 3}" y2="{height - 40}"/>'
        yield (
            f'<text class="mark" x="{x + (-3 if anchor == "end" else 3)}" y="{y}" text-anchor="{anchor}">'
            f"{escape(words)}<title>{escape(step.means or step.step)}</title></text>"
        )


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, …"""
    size = 1.0
    while True:
        for digit in (1, 2, 5):
            if value <= digit * size:
                return digit * size
        size *= 10


def _listed(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
