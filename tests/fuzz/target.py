"""What a fuzz target is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One reader under test."""

    name: str

    run: Callable[[bytes], None]
    """Read an input. The errors that the reader declares are caught inside; all that leaves is a find."""

    seeds: Callable[[], Sequence[bytes]]
    """Inputs to begin from, made by our own writers, so that mutation starts deep inside."""

    largest_input: int = 1024

    weight: int = 1
    """Its share of the time, next to other targets."""


def found(condition: bool, what: str) -> None:
    """Report a find unless the condition holds; unlike `assert` this survives rewriting and -O."""
    if not condition:
        raise AssertionError(what)
