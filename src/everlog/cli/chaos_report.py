"""What `everlog chaos run` reports."""

from pathlib import Path

from everlog.chaos.notes import Notes
from everlog.chaos.page import figures
from everlog.chaos.run import RunSettings
from everlog.chaos.steps import Scenario
from everlog.chaos.verdict import Verdict
from everlog.cli.output import Block, Fields, Line, Report, Table
from everlog.sim.history import Outcome


def run_report(
    scenario: Scenario,
    settings: RunSettings,
    notes: Notes,
    verdict: Verdict,
    html: Path | None,
    history: Path | None,
) -> Report:
    """Steps, figures and the verdict; what makes it bad are the report's errors."""
    data: dict[str, object] = {
        "scenario": scenario.name,
        "sound": verdict.sound,
        "reasons": list(verdict.reasons),
        "topic": settings.topic,
        "partitions": settings.partitions,
        "min_isr": settings.min_isr,
        "rate": settings.rate,
        "acknowledged": verdict.acknowledged,
        "unanswered": verdict.unanswered,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "transactions": {
            "committed": verdict.transactions[Outcome.OK],
            "aborted": verdict.transactions[Outcome.FAIL],
            "unknown": verdict.transactions[Outcome.INFO],
        },
        "unavailable_ms": _rounded(verdict.unavailable_ms),
        "isr_shrink_ms": _rounded(verdict.shrink_ms),
        "group_pause_ms": _rounded(verdict.pause_ms),
        "latency_p50_ms": _rounded(verdict.latency_p50_ms),
        "latency_p99_ms": _rounded(verdict.latency_p99_ms),
        "violations": [
            {"rule": each.invariant, "name": each.name, "message": each.message}
            for each in verdict.violations
        ],
        "skipped": list(verdict.skipped),
        "steps": [
            {
                "step": step.step,
                "begin_ms": _rounded(step.begin_ms),
                "end_ms": _rounded(step.end_ms),
                "broker": step.node,
                "means": step.means,
                "figures": {name: _rounded(figure) for name, figure in step.figures.items()},
                "skipped": step.skipped,
                "failed": step.failed,
            }
            for step in notes.steps
        ],
        "html": None if html is None else str(html),
        "history": None if history is None else str(history),
    }
    rows = [
        (
            f"{step.begin_ms / 1000:.1f} s",
            step.step,
            step.node,
            step.means or None,
            "; ".join(f"{name} {figure:,.0f}" for name, figure in step.figures.items()) or None,
        )
        for step in notes.steps
    ]
    blocks: list[Block] = [
        Table(("AT", "STEP", "BROKER", "BY", "FOUND"), rows),
        Line(""),
        Fields([(words, value) for value, words in figures(verdict)]),
        *(Line(f"skipped: {words}") for words in verdict.skipped),
        Line("verdict: sound" if verdict.sound else "verdict: not sound"),
    ]
    return Report(data, blocks, list(verdict.reasons))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
