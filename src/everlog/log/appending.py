"""The words of an append: who asks for it, what became of it, and the world that logs live in."""

from enum import IntEnum
from typing import NamedTuple

from everlog.model.dataclass import dataclass
from everlog.model.ids import Offset, Timestamp
from everlog.ports.clock import Clock
from everlog.ports.files import Files
from everlog.ports.random import Random


class Origin(IntEnum):
    """Who appends a batch, which decides what is checked."""

    CLIENT = 0
    """A producer: everything is checked."""
    COORDINATOR = 1
    """The broker itself: markers are allowed, producer epochs are checked and sequences are not."""
    REPLICA = 2
    """A copy of what the leader has: offsets and epoch stay, only the structure is checked."""


class Appended(NamedTuple):
    """Where a batch lies now."""

    base_offset: Offset
    last_offset: Offset
    append_time: Timestamp
    """The broker's time where it stamps the records, else -1."""
    duplicate: bool
    """Whether the batch was in the log already, and nothing was appended."""
    wait_for_sync: bool
    """Whether the acknowledgement waits until `recovery_point` is past the last offset."""


@dataclass(frozen=True, slots=True)
class World:
    """What logs ask of the world."""

    files: Files
    clock: Clock
    random: Random
