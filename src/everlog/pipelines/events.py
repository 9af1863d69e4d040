"""What the process that runs Spark tells the one that started it: a line of JSON an event."""

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    """The run as a whole does something new, such as starting Spark."""

    text: str


@dataclass(frozen=True, slots=True)
class FlowChanged:
    """A flow is planned, runs, is done or has failed, in Spark's words: RUNNING, COMPLETED, FAILED."""

    flow: str
    state: str


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch of a streaming flow is done."""

    flow: str
    batch: int
    rows_in: int
    rows_out: int | None
    """None where the sink does not count."""
    duration_ms: int
    rows_per_second: float
    """While the batch ran."""
    lag: int | None
    """Records in its topics that it has not read; None where no source of it is a topic."""


@dataclass(frozen=True, slots=True)
class PassEnded:
    """All declared flows have run once; in a continuous run there are many passes."""

    number: int
    problem: str | None = None
    """Why it failed; a continuous run then tries again."""
    detail: str | None = None
    """The stack behind that."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The last event. `problem` is one line, `detail` the stack behind it; both None if all is well."""

    problem: str | None = None
    detail: str | None = None
    stopped: bool = False
    """Asked to stop, before it was done."""


Event = PhaseBegan | FlowChanged | BatchDone | PassEnded | RunEnded
_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (PhaseBegan, FlowChanged, BatchDone, PassEnded, RunEnded)
}


def event_line(event: Event) -> str:
    """The event as a line, without its end."""
    return json.dumps({"event": type(event).__name__, **asdict(event)})


def read_event(line: str) -> Event:
    """Read what `event_line` wrote."""
    fields: dict[str, Any] = json.loads(line)
    return _KINDS[fields.pop("event")](**fields)
