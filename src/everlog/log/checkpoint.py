"""Small files that are replaced as a whole: the checkpoints of a log directory and of a partition.

A file is written beside its name, synced, renamed over it, and the directory synced: a reader finds the
old bytes or the new ones. Formats are Kafka's. Whatever cannot be read is a CorruptDataError that names
the file and the line, and the caller falls back to the value that is always safe.
"""

import json
from collections.abc import Iterable, Mapping

from everlog.model.dataclass import dataclass
from everlog.model.errors import ConfigError, CorruptDataError
from everlog.model.ids import LeaderEpoch, Offset, Uuid, uuid_from_text, uuid_text
from everlog.model.topics import TopicPartition
from everlog.ports.files import Files

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEAN_ENDS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
LEADER_EPOCHS = "leader-epoch-checkpoint"

TEMPORARY_SUFFIX = ".tmp"
_VERSION = "0"
_LARGEST = (1 << 63) - 1
_LARGEST_ID = (1 << 31) - 1
_MOST_DIGITS = 19
_META_KEYS = ("version", "cluster.id", "node.id", "directory.id")


def replace_file(files: Files, path: str, content: bytes, *, sync_dir: bool = True) -> None:
    """Put `content` at `path`, durably: after a crash there are the old bytes or all of the new ones.

    Without `sync_dir` the caller syncs the directory, once for several files.
    """
    temporary = path + TEMPORARY_SUFFIX
    file = files.open(temporary, create=True)
    try:
        if file.size:
            file.truncate(0)
        file.append((content,))
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    if sync_dir:
        files.sync_dir(parent_of(path))


def parent_of(path: str) -> str:
    """The directory that a path lies in."""
    return path.rpartition("/")[0] or "/"


def offsets_content(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    """Return the text of a per-directory checkpoint: version, count, then `topic partition offset` lines."""
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    return ("\n".join(lines) + "\n").encode()


def read_offsets(files: Files, path: str) -> dict[TopicPartition, Offset]:
    """Read a per-directory checkpoint; a missing file is an empty one."""
    found: dict[TopicPartition, Offset] = {}
    for number, line in _entries(files, path):
        parts = line.split(" ")
        if len(parts) != 3 or not parts[0]:
            raise _damaged(path, number, line, "topic partition offset")
        partition = TopicPartition(parts[0], _number(path, number, parts[1]))
        if partition in found:
            raise _damaged(path, number, line, f"{partition} once")
        found[partition] = Offset(_number(path, number, parts[2]))
    return found


def epochs_content(entries: Iterable[tuple[LeaderEpoch, Offset]]) -> bytes:
    """Return the text of a leader-epoch checkpoint: version, count, then `epoch start_offset` lines."""
    pairs = list(entries)
    lines = [_VERSION, str(len(pairs)), *(f"{epoch} {start}" for epoch, start in pairs)]
    return ("\n".join(lines) + "\n").encode()


def read_epochs(files: Files, path: str) -> list[tuple[LeaderEpoch, Offset]]:
    """Read a leader-epoch checkpoint, whose epochs and offsets rise; a missing file is an empty one."""
    found: list[tuple[LeaderEpoch, Offset]] = []
    for number, line in _entries(files, path):
        parts = line.split(" ")
        if len(parts) != 2:
            raise _damaged(path, number, line, "epoch offset")
        entry = (LeaderEpoch(_number(path, number, parts[0])), Offset(_number(path, number, parts[1])))
        if found and not (entry[0] > found[-1][0] and entry[1] > found[-1][1]):
            raise _damaged(path, number, line, f"more than {found[-1]}")
        found.append(entry)
    return found


def partition_metadata_content(topic_id: Uuid) -> bytes:
    """Return the text of `partition.metadata`."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}\n".encode()


def read_partition_metadata(files: Files, path: str) -> Uuid | None:
    """Read the topic's id from `partition.metadata`; None if the file is missing.

    Kafka writes no newline at its end. Nothing can be cut off unseen all the same: an id has 22 characters.
    """
    lines = _lines(files, path, final_newline=False)
    if lines is None:
        return None
    if len(lines) != 2 or lines[0] != "version: 0" or not lines[1].startswith("topic_id: "):
        raise CorruptDataError(f"{path} has {lines!r}, expected 'version: 0' and 'topic_id: <id>'")
    try:
        return uuid_from_text(lines[1].removeprefix("topic_id: "))
    except ConfigError as error:
        raise CorruptDataError(f"{path} line 2: {error}") from error


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Whose log directory this is: `meta.properties`, version 1."""

    cluster_id: str
    node_id: int
    directory_id: Uuid

    def content(self) -> bytes:
        """Return the file's text."""
        return (
            f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\n"
            f"directory.id={uuid_text(self.directory_id)}\n"
        ).encode()


def read_meta_properties(files: Files, path: str) -> MetaProperties | None:
    """Read `meta.properties`; None if the file is missing."""
    lines = _lines(files, path)
    if lines is None:
        return None
    fields: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        # Nothing else is ever written there, by Kafka neither: another key is one with a wrong letter.
        if not equals or not value or key not in _META_KEYS or key in fields:
            raise _damaged(path, number, line, f"one of {', '.join(_META_KEYS)}, once, = and a value")
        fields[key] = value
    if fields.get("version") != "1":
        raise CorruptDataError(f"{path} has version {fields.get('version')!r}, expected '1'")
    try:
        node_id = _number(path, lines.index(f"node.id={fields['node.id']}") + 1, fields["node.id"])
        if node_id > _LARGEST_ID:
            raise CorruptDataError(f"{path} has node.id {node_id}, expected {_LARGEST_ID} or less")
        return MetaProperties(fields["cluster.id"], node_id, uuid_from_text(fields["directory.id"]))
    except (KeyError, ConfigError) as error:
        raise CorruptDataError(f"{path} lacks or garbles a field: {error}") from error


def clean_shutdown_content(broker_epoch: int) -> bytes:
    """Return the text of the clean-shutdown marker."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode()


def read_clean_shutdown(files: Files, path: str) -> int | None:
    """Return the broker epoch of the last clean stop; None if there is no marker.

    A marker that cannot be read is a CorruptDataError, and counts as none.
    """
    if not files.exists(path):
        return None
    try:
        fields = json.loads(files.read(path))
        if fields.keys() != {"version", "brokerEpoch"} or fields["version"] != 0:
            raise CorruptDataError(f"{path} has {fields!r}, expected version 0 and a broker epoch")
        epoch = fields["brokerEpoch"]
        if type(epoch) is not int or not -1 <= epoch <= _LARGEST:
            raise CorruptDataError(f"{path} has broker epoch {epoch!r}, expected -1 or more")
        return epoch
    except (ValueError, AttributeError, RecursionError) as error:
        raise CorruptDataError(f"{path} is not a clean-shutdown marker: {error}") from error


def _lines(files: Files, path: str, *, final_newline: bool = True) -> list[str] | None:
    try:
        raw = files.read(path)
    except FileNotFoundError:
        return None
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError as error:
        raise CorruptDataError(f"{path} byte {error.start} is not ASCII") from error
    if text and not text.endswith("\n"):
        # Where the last newline is part of the format, a tail is missing without it.
        if final_newline:
            raise CorruptDataError(f"{path} does not end with a newline")
        text += "\n"
    return text.split("\n")[:-1]


def _entries(files: Files, path: str) -> list[tuple[int, str]]:
    lines = _lines(files, path)
    if lines is None:
        return []
    if len(lines) < 2 or lines[0] != _VERSION:
        raise CorruptDataError(f"{path} line 1 is {lines[:1]!r}, expected version '0' and a count")
    count = _number(path, 2, lines[1])
    if count != len(lines) - 2:
        raise CorruptDataError(f"{path} line 2 counts {count} entries, the file has {len(lines) - 2}")
    return list(enumerate(lines[2:], start=3))


def _number(path: str, line: int, text: str) -> int:
    # The length first: Python refuses to read thousands of digits, and says so in its own way.
    if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) > _LARGEST or str(int(text)) != text:
        raise _damaged(path, line, text, "a whole number")
    return int(text)


def _damaged(path: str, line: int, found: str, expected: str) -> CorruptDataError:
    return CorruptDataError(f"{path} line {line} has {found!r}, expected {expected}")
