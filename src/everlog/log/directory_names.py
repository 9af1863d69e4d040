"""What the directories below a log directory are called, and which partition a name stands for."""

from everlog.model.ids import Uuid
from everlog.model.topics import TopicPartition

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
_MAX_NAME_BYTES = 255


def partition_of(name: str) -> TopicPartition | None:
    """The partition that a directory's name stands for; None for files, and directories on their way out."""
    if name.endswith((DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX)):
        return None
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isdecimal() or str(int(number)) != number:
        return None
    return TopicPartition(topic, int(number))


def marked_name(partition: TopicPartition, unique: Uuid, suffix: str) -> str:
    """`<topic>-<n>.<id>-delete` or `-future`, the topic cut where the name would be too long."""
    ending = f"-{partition.partition}.{unique.hex()}{suffix}"
    return partition.topic[: _MAX_NAME_BYTES - len(ending)] + ending
