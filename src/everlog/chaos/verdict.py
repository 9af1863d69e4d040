"""What a run has shown: figures, what was broken of what is promised, and whether it is good enough."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from everlog.chaos.measures import longest_silence_ms, percentile
from everlog.chaos.notes import Notes, StepDone
from everlog.chaos.steps import Verb
from everlog.sim.checkers import Violation, check
from everlog.sim.history import Kind, Outcome

_LOST = ("C3", "C4")
_TWICE = ("C2",)
_PAUSE_WINDOW_MS = 15_000.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What is good enough."""

    unavailable_ms: float = 5_000.0
    """For how long after a fault some partition may take no records."""
    pause_ms: float = 10_000.0
    """For how long some partition may be read by nobody when the group is scaled."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a run; it is sound if `reasons` is empty."""

    reasons: Sequence[str]
    violations: Sequence[Violation]
    acknowledged: int
    unanswered: int
    lost: int
    duplicated: int
    unavailable_ms: float | None
    """The longest of the run; None if nothing was struck."""
    shrink_ms: float | None
    pause_ms: float | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    skipped: Sequence[str]
    transactions: Counter[Outcome]
    """How many were committed (ok), aborted (fail), and how many nobody knows of (info)."""

    @property
    def sound(self) -> bool:
        """Whether all was as it should be."""
        return not self.reasons


def judge(notes: Notes, limits: Limits) -> Verdict:
    """Look at everything that was noted."""
    history = notes.recorder.history()
    violations = check(history)
    lost = sum(violation.invariant in _LOST for violation in violations)
    duplicated = sum(violation.invariant in _TWICE for violation in violations)
    outages = [step.figures["unavailable ms"] for step in notes.steps if "unavailable ms" in step.figures]
    shrinks = [
        step.figures["ISR shrunk after ms"] for step in notes.steps if "ISR shrunk after ms" in step.figures
    ]
    pauses = _measure_pauses(notes)
    latencies = [each.acked_ms - each.sent_ms for each in notes.acked]
    acknowledged = sum(
        len(each.sends)
        for each in history.operations
        if each.kind is Kind.SEND and each.outcome is Outcome.OK
    )
    transactions = Counter(each.outcome for each in history.operations if each.kind is Kind.TXN)
    reasons = _reasons(notes, limits, violations, outages, pauses)
    if not acknowledged:
        reasons.insert(0, "no record was acknowledged at all, so nothing was shown")
    if transactions and not transactions[Outcome.OK]:
        reasons.insert(0, "no transaction was committed at all, so nothing was shown of them")
    return Verdict(
        reasons,
        violations,
        acknowledged,
        len(notes.unanswered),
        lost,
        duplicated,
        max(outages, default=None),
        max(shrinks, default=None),
        max(pauses, default=None),
        percentile(latencies, 0.5),
        percentile(latencies, 0.99),
        [f"{step.step}: {step.skipped}" for step in notes.steps if step.skipped],
        transactions,
    )


def _measure_pauses(notes: Notes) -> list[float]:
    """For each time that the group was scaled, the longest that a partition was read by nobody."""
    pauses: list[float] = []
    for at, step in enumerate(notes.steps):
        if not step.step.startswith(Verb.SCALE):
            continue
        following = notes.steps[at + 1] if at + 1 < len(notes.steps) else step
        quiet = following.step.startswith(Verb.LOAD)
        end = min(following.end_ms if quiet else step.end_ms, step.begin_ms + _PAUSE_WINDOW_MS)
        longest = max(
            longest_silence_ms(notes.handed, step.begin_ms, end).values(), default=end - step.begin_ms
        )
        step.figures["pause of the group ms"] = longest
        pauses.append(longest)
    return pauses


def _reasons(
    notes: Notes,
    limits: Limits,
    violations: Sequence[Violation],
    outages: Sequence[float],
    pauses: Sequence[float],
) -> list[str]:
    reasons = [f"{step.step}: {step.failed}" for step in notes.steps if step.failed]
    counts: dict[tuple[str, str], int] = {}
    for violation in violations:
        key = (violation.invariant, violation.name)
        counts[key] = counts.get(key, 0) + 1
    reasons += [f"{invariant} {name}: {count}" for (invariant, name), count in counts.items()]
    if outages and max(outages) > limits.unavailable_ms:
        reasons.append(
            f"some partition took no records for {max(outages):,.0f} ms, "
            f"expected {limits.unavailable_ms:,.0f} at most"
        )
    if pauses and max(pauses) > limits.pause_ms:
        reasons.append(
            f"some partition was read by nobody for {max(pauses):,.0f} ms while the group was scaled, "
            f"expected {limits.pause_ms:,.0f} at most"
        )
    return reasons


def broken_spans(steps: Sequence[StepDone]) -> list[tuple[float, float, str]]:
    """From when to when something was broken, and what: from each strike to the next heal or the end."""
    spans: list[tuple[float, float, str]] = []
    strikes = (
        Verb.SLOW_DISK,
        Verb.KILL,
        Verb.PAUSE,
        Verb.STOP,
        Verb.FILL_DISK,
        Verb.FAIL_FSYNC,
        Verb.JUMP_CLOCK,
    )
    for at, step in enumerate(steps):
        verb = step.step.partition(":")[0]
        if verb not in strikes or step.skipped:
            continue
        healed = next((each.begin_ms for each in steps[at + 1 :] if each.step.startswith(Verb.HEAL)), None)
        end = step.end_ms if verb == Verb.PAUSE else healed if healed is not None else steps[-1].end_ms
        node = "" if step.node is None else f" (broker {step.node})"
        spans.append((step.begin_ms, end, f"{verb}{node}"))
    return spans
