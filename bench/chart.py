"""The chart: how many times better than Apache Kafka, one bar a row, with the floor that each must pass."""

import math
from html import escape

from bench.metrics import Verdict
from bench.report import Row, figure, rows
from bench.samples import Results

_WIDTH = 980
_LABEL_WIDTH = 330
_RATIO_WIDTH = 56
_FIGURE_WIDTH = 176
_ROW_HEIGHT = 24
_BAR_HEIGHT = 13
_TOP = 78
_BOTTOM = 62
_LEAST, _MOST = 0.5, 32.0
_MARKS = (0.5, 1, 2, 4, 8, 16, 32)

_STYLE = """
  text { font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
         font-size: 12.5px; fill: #1f2328; }
  .title { font-size: 17px; font-weight: 600; }
  .quiet { fill: #59636e; font-size: 11.5px; }
  .figure { font-variant-numeric: tabular-nums; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .kafka { stroke: #59636e; stroke-width: 1.5; }
  .bar { fill: #1a7f64; }
  .missed { fill: #cf222e; }
  .plain { fill: #6e7781; }
  .floor { stroke: #1f2328; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .quiet { fill: #9198a1; }
    .grid { stroke: #30363d; }
    .kafka { stroke: #9198a1; }
    .bar { fill: #3fb68b; }
    .missed { fill: #f85149; }
    .plain { fill: #848d97; }
    .floor { stroke: #e6edf3; }
  }
"""


def svg_chart(results: Results) -> str:
    """The headline rows, and all that miss their floor, as an SVG picture, readable on light and on dark."""
    shown = [
        row
        for row in rows(results)
        if row.advantage and (row.metric.headline or row.verdict is Verdict.MISSED)
    ]
    height = _TOP + _ROW_HEIGHT * len(shown) + _BOTTOM
    machine = results.machine
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="title">',
        f"<style>{_STYLE}</style>",
        '<title id="title">Everlog compared with Apache Kafka</title>',
        '<text x="16" y="28" class="title">Everlog, times better than Apache Kafka</text>',
        f'<text x="16" y="48" class="quiet">{escape(_versions(results))}; {escape(machine.cpu)}, '
        f"{machine.cores} cores; medians{_noise(results)}</text>",
        *_grid(len(shown)),
        _right(_WIDTH - 16, _TOP - 9, "Everlog : Kafka", "quiet"),
        *(part for index, row in enumerate(shown) for part in _bar(index, row)),
        *_legend(height),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _noise(results: Results) -> str:
    """A warning that travels with the picture."""
    quiet, taken = results.all_quiet()
    return "" if quiet == taken else f"; PROVISIONAL, {taken - quiet} of {taken} samples beside other load"


def _versions(results: Results) -> str:
    return " against ".join(f"{name} {text.split(' ')[0]}" for name, text in results.versions.items())


def _x(ratio: float) -> float:
    """Where a ratio lies: the scale is logarithmic, so that twice as good and half as good look alike."""
    clipped = min(max(ratio, _LEAST), _MOST)
    share = math.log(clipped / _LEAST) / math.log(_MOST / _LEAST)
    return round(_LABEL_WIDTH + share * (_WIDTH - _LABEL_WIDTH - _RATIO_WIDTH - _FIGURE_WIDTH), 1)


def _grid(count: int) -> list[str]:
    bottom = _TOP + _ROW_HEIGHT * count
    parts: list[str] = []
    for mark in _MARKS:
        x = _x(mark)
        style = "kafka" if mark == 1 else "grid"
        parts.append(f'<line x1="{x}" y1="{_TOP - 4}" x2="{x}" y2="{bottom}" class="{style}"/>')
        parts.append(f'<text x="{x}" y="{_TOP - 9}" class="quiet" text-anchor="middle">{mark:g}x</text>')
    return parts


def _bar(index: int, row: Row) -> list[str]:
    assert row.advantage is not None
    y = _TOP + index * _ROW_HEIGHT
    middle = y + _ROW_HEIGHT / 2
    start, end = sorted((_x(1.0), _x(row.advantage.median)))
    style = {Verdict.MISSED: "missed", Verdict.NONE: "plain"}.get(row.verdict, "bar")
    parts = [
        f'<text x="16" y="{middle + 4.5}">{escape(row.metric.label)}</text>',
        f'<rect x="{start}" y="{middle - _BAR_HEIGHT / 2}" width="{max(1.0, round(end - start, 1))}" '
        f'height="{_BAR_HEIGHT}" rx="2" class="{style}"/>',
        _right(_WIDTH - _FIGURE_WIDTH, middle + 4.5, f"{row.advantage.median:.1f}x", "figure"),
        _right(_WIDTH - 16, middle + 4.5, _figures(row), "quiet figure"),
    ]
    goal = row.metric.goal
    if goal is not None and not goal.absolute:
        x = _x(goal.floor)
        parts.append(f'<line x1="{x}" y1="{middle - 9}" x2="{x}" y2="{middle + 9}" class="floor"/>')
    return parts


def _right(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" class="{style}" text-anchor="end">{escape(text)}</text>'


def _figures(row: Row) -> str:
    assert row.everlog is not None
    assert row.kafka is not None
    return f"{figure(row.everlog.median)} : {figure(row.kafka.median)} {row.metric.unit}"


def _legend(height: int) -> list[str]:
    y = height - 34
    floor = "the floor that a row must pass; a red bar missed it, a grey one has none"
    kafka = (
        "the line at 1x is Apache Kafka with its default settings, on the same machine, "
        "in turn with Everlog, with the same loaders"
    )
    return [
        f'<line x1="17" y1="{y - 9}" x2="17" y2="{y + 5}" class="floor"/>',
        f'<text x="26" y="{y + 2}" class="quiet">{floor}</text>',
        f'<text x="16" y="{y + 20}" class="quiet">{kafka}</text>',
    ]
