"""What became of a run so far, from its events: states, rows, rates and lag of each flow."""

from dataclasses import asdict, dataclass, field
from typing import assert_never

from everlog.pipelines.events import BatchDone, Event, FlowChanged, PassEnded, PhaseBegan, RunEnded

_OVER = frozenset({"COMPLETED", "FAILED", "STOPPED", "SKIPPED", "EXCLUDED", "IDLE"})


@dataclass(slots=True)
class FlowTally:
    """One flow of a run."""

    flow: str
    state: str = "QUEUED"
    batches: int = 0
    rows_in: int = 0
    rows_out: int | None = None
    """None while no sink has counted."""
    busy_ms: int = 0
    """Time in batches; without the waits between them."""
    rows_per_second: float = 0.0
    """Of the last batch that had rows."""
    lag: int | None = None
    """After the last batch; None if no source is a topic."""
    runs: int = 0
    """How often it began to run: once a pass."""

    @property
    def rate(self) -> float:
        """Rows a second over all batches."""
        return self.rows_in * 1000 / self.busy_ms if self.busy_ms else 0.0


@dataclass(slots=True)
class RunTally:
    """A run as a whole."""

    phase: str = ""
    flows: dict[str, FlowTally] = field(default_factory=dict[str, FlowTally])
    passes: int = 0
    failed_passes: int = 0
    ended: RunEnded | None = None

    def take(self, event: Event) -> None:
        """Count one event in."""
        match event:
            case PhaseBegan(text):
                self.phase = text
            case FlowChanged(name, state):
                flow = self._flow(name)
                if state == "RUNNING" and flow.state != "RUNNING":
                    flow.runs += 1
                flow.state = state
            case BatchDone():
                self._take_batch(event)
            case PassEnded(number, problem, _):
                self.passes = number
                self.failed_passes += problem is not None
            case RunEnded():
                self.ended = event
            case _:
                assert_never(event)

    @property
    def lag(self) -> int | None:
        """Of all flows together; None if none reads a topic."""
        known = [flow.lag for flow in self.flows.values() if flow.lag is not None]
        return sum(known) if known else None

    def running(self) -> list[FlowTally]:
        """Flows that are at work."""
        return [flow for flow in self.flows.values() if flow.state not in _OVER]

    def shape(self) -> list[dict[str, object]]:
        """The flows as JSON shows them."""
        return [{**asdict(flow), "rate": round(flow.rate, 1)} for flow in self.flows.values()]

    def _flow(self, name: str) -> FlowTally:
        return self.flows.setdefault(name, FlowTally(name))

    def _take_batch(self, batch: BatchDone) -> None:
        flow = self._flow(batch.flow)
        flow.batches += 1
        flow.rows_in += batch.rows_in
        if batch.rows_out is not None:
            flow.rows_out = (flow.rows_out or 0) + batch.rows_out
        flow.busy_ms += batch.duration_ms
        if batch.rows_in:
            flow.rows_per_second = batch.rows_per_second
        if batch.lag is not None:
            flow.lag = batch.lag
