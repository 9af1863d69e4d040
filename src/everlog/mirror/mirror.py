"""What is mirrored where, and the topics that it needs on the other cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from everlog.client import Admin, ConfigError, ItemsRefused, NewTopic
from everlog.client.core.admin.configs import ConfigResource, ConfigSource
from everlog.model.errors import ErrorCode

_NOT_COPIED = {
    # The mirror keeps the timestamps of the source, which this would overwrite.
    "message.timestamp.type",
    # About the brokers of the other cluster, of which the source knows nothing.
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "min.insync.replicas",
    "unclean.leader.election.enable",
}


@dataclass(frozen=True, slots=True)
class Mirror:
    """From which cluster to which, and under which names.

    >>> Mirror("127.0.0.1:9092", "127.0.0.1:9192")
    >>> Mirror("eu:9092", "us:9092", topic="eu.{topic}")   # as MirrorMaker 2 names them

    Partitions, keys, values, headers and timestamps stay as they are; offsets cannot.
    """

    source: str
    target: str
    topic: str = "{topic}"
    """The name of a topic's mirror; `{topic}` stands for the topic's own."""
    map_topic: str = "{topic}.offset-map"
    """Where it is noted which offset became which; `{topic}` stands for the name of the mirror."""
    source_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of clients of the source, such as `security_protocol`."""
    target_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of clients of the target."""

    def __post_init__(self) -> None:
        for setting, value in (("topic", self.topic), ("map_topic", self.map_topic)):
            if "{topic}" not in value:
                raise ConfigError(f"{setting}={value!r}: expected a name with {{topic}} in it")

    def name_of(self, topic: str) -> str:
        """The name of a topic's mirror."""
        return self.topic.replace("{topic}", topic)

    def map_name_of(self, topic: str) -> str:
        """The name of the topic with the notes about a topic of the source."""
        return self.map_topic.replace("{topic}", self.name_of(topic))

    def prepare(self, topics: set[str]) -> dict[str, int]:
        """Make what is missing on the target: mirrors with the source's settings, maps, partitions.

        Returns how many partitions each topic has. Several may call at once.
        """
        with (
            Admin(self.source, **self.source_options) as source,
            Admin(self.target, **self.target_options) as target,
        ):
            found = source.describe_topics(topics)
            there = set(target.list_topics(internal=True))
            resources = {topic: ConfigResource.topic(topic) for topic in found}
            configs = source.describe_configs(resources.values())
            for topic, described in found.items():
                own = {
                    key: entry.value
                    for key, entry in configs[resources[topic]].items()
                    if entry.source is ConfigSource.TOPIC
                    and entry.value is not None
                    and key not in _NOT_COPIED
                }
                total = len(described.partitions)
                _make(target, there, NewTopic(self.name_of(topic), total, configs=own))
                # Map partition n is about partition n, so its newest note is always its last.
                _make(
                    target,
                    there,
                    NewTopic(self.map_name_of(topic), total, configs={"cleanup.policy": "compact"}),
                )
            return {topic: len(described.partitions) for topic, described in found.items()}


def _make(admin: Admin, there: set[str], wanted: NewTopic) -> None:
    if wanted.name not in there:
        try:
            admin.create_topics([wanted])
            return
        except ItemsRefused as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
    if _partitions(admin, wanted.name) < wanted.partitions:
        try:
            admin.create_partitions({wanted.name: wanted.partitions})
        except ItemsRefused:
            # Another one may have come first.
            if _partitions(admin, wanted.name) < wanted.partitions:
                raise


def _partitions(admin: Admin, topic: str) -> int:
    return len(admin.describe_topics([topic])[topic].partitions)
