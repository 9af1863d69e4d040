"""A broken invariant, and the names of all of them."""

from dataclasses import dataclass

NAMES = {
    "C1": "inconsistent offsets",
    "C2": "duplicate",
    "C3": "lost write",
    "C4": "unseen",
    "C5": "aborted read",
    "C6": "precommitted read",
    "C7a": "skip within a poll",
    "C7b": "step back within a poll",
    "C8a": "skip between polls",
    "C8b": "step back between polls",
    "C9a": "sends out of order",
    "C9b": "sends out of order within a transaction",
    "C10": "circular information flow",
    "C11": "unwritten read",
    "C12": "not exactly once",
    "C13": "torn transaction",
    "C14": "read beyond the end",
    "C15": "committed offset regression",
    "C16": "double ownership",
    "C17": "zombie accepted",
    "C18": "wrong lookup by time",
    "C19": "wrong compaction",
    "C21": "money lost or made",
    "C22": "unavailable",
    "C23": "committed and handed to nobody",
}
"""C20, tiering, is missing: there is no remote storage whose bytes could differ."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where an invariant does not hold."""

    invariant: str
    message: str

    def __post_init__(self) -> None:
        assert self.invariant in NAMES, self.invariant

    @property
    def name(self) -> str:
        """The invariant in words."""
        return NAMES[self.invariant]

    def __str__(self) -> str:
        return f"{self.invariant} {self.name}: {self.message}"
