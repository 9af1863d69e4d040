"""Topics and partitions: how they are named, and which names are legal."""

import re
from typing import NamedTuple

MAX_NAME_LENGTH = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")

METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return the name of the partition's directory, `<topic>-<n>`."""
        return f"{self.topic}-{self.partition}"


def topic_name_problem(name: str) -> str | None:
    """Say what is wrong with a topic's name, or None if it may be used.

    The rule is Kafka's. It also keeps names from being paths: no slash passes, nor `.` and `..`.
    """
    if not name:
        return "the topic name is empty"
    if name in {".", ".."}:
        return f"the topic name may not be {name!r}"
    if len(name) > MAX_NAME_LENGTH:
        return f"the topic name has {len(name)} characters, at most {MAX_NAME_LENGTH} are allowed"
    if not _LEGAL_NAME.match(name):
        return f"the topic name {name!r} may only have ASCII letters, digits, '.', '_' and '-'"
    return None


def names_collide(one: str, other: str) -> bool:
    """Whether two topic names would clash in metric names, where '.' becomes '_'."""
    return one.replace(".", "_") == other.replace(".", "_")
