"""Names for the moments between which a process may die, so that tests can make it die there."""

from collections.abc import Callable

STEPS = (
    "staged",
    "letters-sent",
    "letters-committed",
    "commit-planned",
    "commit-drafted",
    "commit-linked",
    "commit-made",
    "group-committed",
    "upkeep-written",
    "upkeep-made",
    "upkeep-removing",
    "back-sent",
    "back-committed",
)
"""All of them, in the order in which a batch and then upkeep come by; Parquet alone drafts and links."""

observer: Callable[[str], None] | None = None
"""Called with the name of each step reached; for tests."""


def reached(step: str) -> None:
    """Say that a step was reached."""
    assert step in STEPS, step
    if observer is not None:
        observer(step)
