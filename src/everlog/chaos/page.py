"""A run as one HTML page: verdict, figures, timeline, steps. It loads nothing from anywhere."""

from collections.abc import Iterable, Mapping
from html import escape

from everlog.chaos.chart import timeline
from everlog.chaos.notes import Notes
from everlog.chaos.verdict import Verdict
from everlog.sim.history import Outcome

_TRANSACTIONS = {
    Outcome.OK: "transactions committed",
    Outcome.FAIL: "transactions aborted on purpose",
    Outcome.INFO: "transactions of which nobody knows",
}

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --paper: #ffffff; --line: #d8dde3;
  --acks: #2f7d5b; --slow: #b3632a; --reads: #3b63b5; --broken: #d64545; --good: #2f7d5b; --bad: #c02f2f; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e6e9ed; --soft: #9aa5b1; --paper: #14181d; --line: #333b45;
  --acks: #58b58a; --slow: #e0935a; --reads: #7fa3ee; --broken: #e06767; --good: #58b58a; --bad: #f07a7a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 1160px; padding: 24px 20px 48px; }
h1 { font-size: 22px; margin: 0 0 2px; } h2 { font-size: 16px; margin: 32px 0 8px; }
p.lead { color: var(--soft); margin: 0 0 18px; }
.verdict { font-size: 17px; font-weight: 600; padding: 10px 14px; border-left: 5px solid; }
.verdict.sound { border-color: var(--good); } .verdict.unsound { border-color: var(--bad); }
.verdict ul { font-size: 15px; font-weight: 400; margin: 6px 0 0; padding-left: 20px; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); gap: 10px;
  margin: 18px 0; }
.figure { border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; }
.figure b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.figure span { color: var(--soft); font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg.timeline { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
svg text.title { font-size: 12px; fill: var(--ink); } svg text.mark { fill: var(--ink); }
svg text.leader { fill: #fff; font-size: 10px; }
svg line.grid { stroke: var(--line); } svg line.mark { stroke: var(--soft); stroke-dasharray: 2 3; }
svg .acks { fill: var(--acks); fill-opacity: .8; } svg .slow { fill: var(--slow); fill-opacity: .8; }
svg .reads { fill: var(--reads); fill-opacity: .8; } svg .broken { fill: var(--broken); fill-opacity: .09; }
svg .isr { fill: var(--acks); } svg .missing-1 { fill: #d9a21b; } svg .missing-2 { fill: #d0702a; }
svg .missing-3 { fill: #b5482f; } svg .missing-9 { fill: #8f1d1d; }
.key span { display: inline-block; margin-right: 16px; font-size: 13px; color: var(--soft); }
.key i { display: inline-block; width: 12px; height: 12px; margin-right: 5px; vertical-align: -1px; }
.bad { color: var(--bad); }
"""


def render_page(title: str, facts: Mapping[str, str], notes: Notes, verdict: Verdict) -> str:
    """The page as text."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            f'<p class="lead">{escape(" · ".join(f"{name} {value}" for name, value in facts.items()))}</p>',
            *_verdict(verdict),
            *_figures(verdict),
            "<h2>What happened</h2>",
            timeline(notes),
            _KEY,
            "<h2>Steps</h2>",
            *_steps(notes),
            *_violations(verdict),
            "</body></html>",
            "",
        ]
    )


_KEY = (
    '<p class="key"><span><i style="background:var(--acks)"></i>all replicas in sync</span>'
    '<span><i style="background:#d9a21b"></i>one missing</span>'
    '<span><i style="background:#d0702a"></i>two missing</span>'
    '<span><i style="background:#8f1d1d"></i>nobody leads</span>'
    '<span><i style="background:var(--broken);opacity:.3"></i>something is broken</span>'
    "<span>numbers in the rows are leaders</span></p>"
)


def _verdict(verdict: Verdict) -> Iterable[str]:
    if verdict.sound:
        words = "Sound: nothing that was acknowledged is lost, all limits were kept."
        yield f'<div class="verdict sound">{words}</div>'
        return
    yield '<div class="verdict unsound">Not sound<ul>'
    yield from (f"<li>{escape(reason)}</li>" for reason in verdict.reasons)
    yield "</ul></div>"


def _figures(verdict: Verdict) -> Iterable[str]:
    yield '<div class="figures">'
    for value, words in figures(verdict):
        yield f'<div class="figure"><b>{escape(value)}</b><span>{escape(words)}</span></div>'
    yield "</div>"


def figures(verdict: Verdict) -> list[tuple[str, str]]:
    """The figures of a verdict with their names, those that were not measured as a dash."""
    ended = [
        (f"{verdict.transactions[outcome]:,}", words)
        for outcome, words in _TRANSACTIONS.items()
        if verdict.transactions
    ]
    return [
        (f"{verdict.acknowledged:,}", "records acknowledged"),
        (f"{verdict.lost:,}", "of them lost"),
        (f"{verdict.duplicated:,}", "records twice in the log"),
        (f"{verdict.unanswered:,}", "records without an answer"),
        (_ms(verdict.unavailable_ms), "longest without writes after a fault"),
        (_ms(verdict.shrink_ms), "until the ISR shrank"),
        (_ms(verdict.pause_ms), "longest without reads while scaling"),
        (_ms(verdict.latency_p50_ms), "until acknowledged, median"),
        (_ms(verdict.latency_p99_ms), "until acknowledged, 99 of 100"),
        *ended,
    ]


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f} ms" if value < 100 else f"{value:,.0f} ms"


def _steps(notes: Notes) -> Iterable[str]:
    yield "<table><tr><th>from</th><th>to</th><th>step</th><th>broker</th><th>by</th><th>found</th></tr>"
    for step in notes.steps:
        found = [f"{name}: {figure:,.0f}" for name, figure in step.figures.items()]
        if step.skipped:
            found.append(f"skipped: {step.skipped}")
        words = escape("; ".join(found))
        if step.failed:
            words += f' <span class="bad">{escape(step.failed)}</span>'
        yield (
            f'<tr><td class="number">{step.begin_ms / 1000:.1f} s</td>'
            f'<td class="number">{step.end_ms / 1000:.1f} s</td>'
            f"<td>{escape(step.step)}</td><td>{'' if step.node is None else step.node}</td>"
            f"<td>{escape(step.means)}</td><td>{words}</td></tr>"
        )
    yield "</table>"


def _violations(verdict: Verdict) -> Iterable[str]:
    if not verdict.violations:
        return
    yield "<h2>Promises that were broken</h2><table><tr><th>rule</th><th>what</th></tr>"
    for violation in verdict.violations[:50]:
        rule = escape(f"{violation.invariant} {violation.name}")
        yield f"<tr><td>{rule}</td><td>{escape(violation.message)}</td></tr>"
    yield "</table>"
