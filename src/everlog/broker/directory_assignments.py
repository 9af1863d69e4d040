"""Which log directory holds which replica, told to the controller (KIP-858).

The controller has to know to take leaders away from a directory that fails. It knows by itself where a broker
has only one. What it was not told, because it was away or this broker was, is told when it is there.
"""

import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from everlog.metadata.image import PartitionImage
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Instant, Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.message import Message
from everlog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_log = logging.getLogger(__name__)

_VERSION: Final = 0
_TIMEOUT_MS: Final = 30_000
RETRY_MS: Final = 500
MOST_AT_ONCE: Final = 2_000
"""Replicas in one request, so that its decision keeps nobody waiting for long."""

_Place = tuple[TopicPartition, Uuid]
"""A partition, and the directory it lies in."""


class DirectoryAssignments:
    """What the controller is to be told; one request at a time."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._waiting: dict[TopicPartition, Uuid] = {}
        self._under_way = False
        self._next_at = Instant(0)

    def note(self, name: TopicPartition, path: str) -> None:
        """A replica lies in the directory at `path`: tell the controller, unless the metadata says so."""
        directory = self._broker.health.id_of(path)
        if directory is None:
            return
        self._waiting[name] = directory
        if self._still_news((name, directory)):
            self._broker.alarm.ring_by(self._broker.clock.now())
        else:
            del self._waiting[name]

    def tick(self, now: Instant) -> None:
        """Send what waits, if nothing is under way."""
        if not self._waiting or self._under_way:
            return
        if self._next_at > now:
            self._broker.alarm.ring_by(self._next_at)
            return
        self._waiting = dict(place for place in self._waiting.items() if self._still_news(place))
        sent = list(self._waiting.items())[:MOST_AT_ONCE]
        if not sent:
            return
        for name, _ in sent:
            del self._waiting[name]
        self._under_way = True
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker.node_id, broker_epoch=self._broker.epoch, directories=self._packed(sent)
        )
        self._broker.channel.ask(request, _VERSION, partial(self._answered, sent), _TIMEOUT_MS)

    def _packed(self, places: Iterable[_Place]) -> list[RequestDirectoryData]:
        directories: dict[Uuid, dict[Uuid, list[RequestPartitionData]]] = {}
        for name, directory in places:
            topic = self._broker.image.topics[name.topic]
            topics = directories.setdefault(directory, {})
            topics.setdefault(topic.id, []).append(RequestPartitionData(partition_index=name.partition))
        return [
            RequestDirectoryData(
                id=directory,
                topics=[
                    RequestTopicData(topic_id=topic, partitions=found) for topic, found in topics.items()
                ],
            )
            for directory, topics in directories.items()
        ]

    def _answered(self, sent: list[_Place], answer: Message | Refused) -> None:
        self._under_way = False
        now = self._broker.clock.now()
        if not isinstance(answer, AssignReplicasToDirsResponse) or answer.error_code:
            why = ErrorCode(answer.error_code) if isinstance(answer, AssignReplicasToDirsResponse) else answer
            _log.info("where replicas lie could not be told to the controller, and will be again: %r", why)
            for name, directory in sent:
                # It may have moved on since.
                self._waiting.setdefault(name, directory)
            self._next_at = Instant(now + RETRY_MS)
        self.tick(now)

    def _still_news(self, place: _Place) -> bool:
        name, directory = place
        partition = self._partition(name)
        return partition is not None and partition.directory_of(self._broker.node_id) != directory

    def _partition(self, name: TopicPartition) -> PartitionImage | None:
        """The partition, if this broker is to hold it."""
        topic = self._broker.image.topics.get(name.topic)
        if topic is None or name.partition >= len(topic.partitions):
            return None
        partition = topic.partitions[name.partition]
        return partition if self._broker.node_id in partition.replicas else None
