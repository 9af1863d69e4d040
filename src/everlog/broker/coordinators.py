"""Coordinators: the groups and transactions that this broker coordinates (C2, P5).

A handler asks for the shard of its group or transactional id and runs its command there. What is not here,
not yet read or not yet made is Refused with an error that clients try again on.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from everlog.broker.internal_topics import InternalTopics
from everlog.broker.markers import MarkerWriter
from everlog.broker.shard_set import ShardSet
from everlog.broker.topic_maker import TopicMaker
from everlog.broker.txn_questions import TxnQuestions
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.partitions import OFFSETS_TOPIC, TXN_TOPIC
from everlog.coordinator.shards import ShardWorld
from everlog.metadata.delta import Changes
from everlog.model.ids import Instant, Offset
from everlog.model.topics import TopicPartition

if TYPE_CHECKING:
    from everlog.broker.broker import Broker
    from everlog.coordinator.group.shard import GroupShard
    from everlog.coordinator.txn.shard import TxnShard


class Coordinators:
    """Both coordinators of one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.topic_maker = TopicMaker(broker)
        self.internal_topics = InternalTopics(broker, self.topic_maker)
        self.groups: ShardSet[GroupShard] = ShardSet(broker, OFFSETS_TOPIC, self._make_group_shard)
        self.markers = MarkerWriter(broker)
        self.questions = TxnQuestions(broker)
        self.txns: ShardSet[TxnShard] = ShardSet(broker, TXN_TOPIC, self._make_txn_shard)

    # Both are imported when the first is made: a broker serves records before anyone asks for a group.

    def _make_group_shard(self, world: ShardWorld) -> "GroupShard":
        from everlog.coordinator.group.shard import GroupShard

        return GroupShard(world)

    def _make_txn_shard(self, world: ShardWorld) -> "TxnShard":
        from everlog.coordinator.txn.shard import TxnShard

        return TxnShard(replace(world, write_markers=self.markers.write_all))

    def group_shard(self, group_id: str) -> "GroupShard":
        """The shard that coordinates a group.

        Refused: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, or COORDINATOR_NOT_AVAILABLE, which also
        begins to make the topic if it is not there.
        """
        return self.groups.get(group_id)

    def txn_shard(self, transactional_id: str) -> "TxnShard":
        """The shard that coordinates a transactional id; Refused as `group_shard`."""
        return self.txns.get(transactional_id)

    def marker_committed(
        self, partition: TopicPartition, producer: ProducerStamp, commit: bool, offset: Offset
    ) -> None:
        """A transaction's marker is committed in a partition's log: offsets that it commits count now."""
        if partition.topic == OFFSETS_TOPIC:
            self.groups.end_transaction(partition.partition, producer, commit, offset)

    def start(self) -> None:
        """Begin to read what this broker coordinates."""
        self.txns.reconcile()
        self.groups.reconcile()

    def image_changed(self, changes: Changes) -> None:
        """Follow another cluster image."""
        self.topic_maker.image_changed()
        self.markers.image_changed()
        self.txns.image_changed(changes)
        self.groups.image_changed(changes)

    def tick(self, now: Instant) -> None:
        """Read on where logs are being read, and do what is due."""
        loading = [shards.load_some() for shards in (self.txns, self.groups)]
        self.topic_maker.tick(now)
        self.questions.tick(now)
        self.txns.tick(now)
        self.groups.tick(now)
        if any(loading):
            self._broker.alarm.ring_by(now)
