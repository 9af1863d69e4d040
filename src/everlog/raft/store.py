"""What a voter must remember over a crash: the epoch, its leader, and whom it voted for.

The file is Kafka's `quorum-state`, version 1: one line of JSON. It is replaced as a whole, and is on disk
before anything that depends on it leaves the node (Raft, section 5: currentTerm and votedFor).
"""

import json
from typing import Any

from everlog.model.dataclass import dataclass
from everlog.model.errors import ConfigError, CorruptDataError
from everlog.model.ids import NO_UUID, Uuid, uuid_from_text, uuid_text
from everlog.ports.files import Files

FILE_NAME = "quorum-state"
VERSION = 1
NOBODY = -1
_LARGEST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The state of an election, as one voter knows it."""

    epoch: int
    leader: int = NOBODY
    voted: int = NOBODY
    voted_directory: Uuid = NO_UUID


class QuorumStore:
    """The quorum-state file in one directory."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._path = f"{directory}/{FILE_NAME}"

    def read(self) -> QuorumState | None:
        """What was written last, or None if nothing ever was; CorruptDataError if it cannot be read."""
        if not self._files.exists(self._path):
            return None
        return decode_state(self._files.read(self._path))

    def write(self, state: QuorumState) -> None:
        """Replace the file; when this returns the state outlives a crash. It blocks."""
        temporary = f"{self._path}.tmp"
        if self._files.exists(temporary):
            self._files.unlink(temporary)
        file = self._files.open(temporary, create=True)
        try:
            file.append([encode_state(state)])
            file.sync()
        finally:
            file.close()
        self._files.rename(temporary, self._path)
        self._files.sync_dir(self._directory)


def encode_state(state: QuorumState) -> bytes:
    """The line of JSON that stands for a state."""
    fields = {
        "leaderId": state.leader,
        "leaderEpoch": state.epoch,
        "votedId": state.voted,
        "votedDirectoryId": uuid_text(state.voted_directory),
        "data_version": VERSION,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_state(data: bytes) -> QuorumState:
    """Read a quorum-state file, version 0 or 1; CorruptDataError if it is neither.

    It has no checksum. So version 1 must be written as it is always written, by Kafka too, to the letter.
    """
    try:
        fields: dict[str, Any] = json.loads(data)
        version = fields["data_version"]
        if version not in (0, VERSION):
            raise CorruptDataError(f"{FILE_NAME} has version {version!r}, expected 0 or {VERSION}")
        voted_directory = uuid_from_text(fields["votedDirectoryId"]) if version else NO_UUID
        numbers = [fields[name] for name in ("leaderEpoch", "leaderId", "votedId")]
    except (ValueError, KeyError, TypeError, ConfigError, RecursionError) as error:
        raise CorruptDataError(f"{FILE_NAME} is {data[:200]!r}, which cannot be read: {error}") from None
    if (
        not all(type(number) is int and NOBODY <= number <= _LARGEST for number in numbers)
        or numbers[0] < 0
        or (numbers[2] == NOBODY and voted_directory != NO_UUID)
    ):
        raise CorruptDataError(f"{FILE_NAME} has {numbers!r} for its epoch, leader and vote")
    state = QuorumState(numbers[0], numbers[1], numbers[2], voted_directory)
    if version and data.rstrip(b"\n") != encode_state(state):
        raise CorruptDataError(f"{FILE_NAME} is {data[:200]!r}, expected {encode_state(state)!r}")
    return state
