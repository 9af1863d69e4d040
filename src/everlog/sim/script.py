"""Scripts: what a small client does, as a generator that somebody else carries out.

A script yields a step and is handed its result. It never waits, connects or looks at a clock by itself, so
that the same script runs in a simulated world and, over sockets, against a real process. Between two requests
on different channels nothing keeps their order, as between the connections of a real client.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from everlog.wire.message import Message

R = TypeVar("R")
M = TypeVar("M", bound=Message)

TIMEOUT_MS = 3_000
ANYBODY = -1
"""Stands for a node where any will do."""


class Lost(Exception):
    """No answer came, and none will: the request may have been carried out, may yet be, or never arrived."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request; its result is the answer, or Lost is raised."""

    request: Message
    version: int
    channel: str = "main"
    timeout_ms: int = TIMEOUT_MS
    node: int = ANYBODY


@dataclass(frozen=True, slots=True)
class Burst:
    """Requests sent to one node on one channel without waiting; the result has None for those lost."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Sleep:
    """Let time pass."""

    ms: int


Step = Call | Burst | Sleep
Script = Generator[Step, Any, R]
"""What is sent in depends on the step, which no type can say; `ask` checks it."""


def ask(
    kind: type[M],
    request: Message,
    version: int,
    channel: str = "main",
    timeout_ms: int = TIMEOUT_MS,
    node: int = ANYBODY,
) -> Script[M]:
    """Send a request and return its answer, which is of this kind."""
    answer = yield Call(request, version, channel, timeout_ms, node)
    assert isinstance(answer, kind), (answer, kind)
    return answer


def burst(
    kind: type[M], requests: list[Message], version: int, channel: str = "main", node: int = ANYBODY
) -> Script[list[M | None]]:
    """Send requests after one another and return the answers that came."""
    answers = yield Burst(tuple(Call(request, version, channel, node=node) for request in requests))
    assert isinstance(answers, list)
    found: list[M | None] = []
    for answer in answers:  # pyright: ignore[reportUnknownVariableType]  # what is sent in is Any
        assert answer is None or isinstance(answer, kind), (answer, kind)
        found.append(answer)
    return found


def sleep(ms: int) -> Script[None]:
    """Let time pass."""
    yield Sleep(ms)
