"""The shards of one internal topic that this broker coordinates: loading, serving, or given up.

A shard lives from the moment its partition leads here until it leads elsewhere, under one leader epoch. It
reads the log up to its end and serves once all of that is committed: what is not may be lost with this
leader, and nobody may have heard of it. A partition that was never written to has nothing to load, and its
shard is made when it is first asked for.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from everlog.broker.commitment import when_committed
from everlog.broker.journal import ReplicaJournal
from everlog.broker.loading import Loading
from everlog.broker.replicas import Replica
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.partitions import OFFSETS_TOPIC, TXN_TOPIC, partition_for
from everlog.coordinator.shards import Shard, ShardWorld
from everlog.metadata.delta import Changes
from everlog.metadata.image import TopicImage
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.model.ids import Instant, Offset
from everlog.model.settings import broker_table as keys

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_log = logging.getLogger(__name__)

RETRY_LOAD_MS = 30_000
"""How long a log that could not be read is left alone."""

_LOAD_BYTES = {
    OFFSETS_TOPIC: keys.OFFSETS_LOAD_BUFFER_SIZE,
    TXN_TOPIC: keys.TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE,
}

S = TypeVar("S", bound=Shard)


class _Slot(Generic[S]):
    """One partition that leads here; also its shard's alarm."""

    def __init__(self, broker: "Broker", replica: Replica, epoch: int) -> None:
        self._broker = broker
        self.replica = replica
        self.epoch = epoch
        self.shard: S | None = None
        self.loading: Loading | None = None
        """Set until the log is read and what was read is committed."""
        self.loaded_to = Offset(0)
        """Where the load ended: markers below it were read with the rest."""
        self.late_markers: list[tuple[ProducerStamp, bool]] = []
        """Markers behind what is being loaded, committed before the shard serves."""
        self.failure: str | None = None
        """Why the log cannot be read, until it is tried again."""
        self.due: Instant | None = None
        """When the shard wants its tick, or the load is tried again."""

    @property
    def serving(self) -> S | None:
        """The shard, once it is loaded."""
        return self.shard if self.loading is None else None

    def ring_by(self, deadline: Instant) -> None:
        """See to it that this shard is ticked at `deadline`."""
        if self.due is None or deadline < self.due:
            self.due = deadline
            self._broker.alarm.ring_by(deadline)


class ShardSet(Generic[S]):
    """The shards of one internal topic on this broker."""

    def __init__(self, broker: "Broker", topic: str, make: Callable[[ShardWorld], S]) -> None:
        self._broker = broker
        self.topic = topic
        self._make = make
        self._slots: dict[int, _Slot[S]] = {}
        self._queue: deque[_Slot[S]] = deque()
        """Slots to be loaded, in turn; what somebody asked for comes first."""

    def index_of(self, name: str) -> int | None:
        """The partition that a group or transactional id is in; None while the topic is not there."""
        topic = self._image()
        return None if topic is None else partition_for(name, len(topic.partitions))

    def get(self, name: str) -> S:
        """The shard that coordinates `name`; Refused if that is not here, or not yet."""
        topic = self._image()
        if topic is None:
            self._broker.coordinators.internal_topics.ensure(self.topic, lambda _refusal: None)
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the topic {self.topic} is being made")
        return self.at(partition_for(name, len(topic.partitions)))

    def at(self, index: int) -> S:
        """The shard of one partition; Refused if it is not here, or not yet."""
        slot = self._slots.get(index) or self._open(index)
        if slot is None:
            raise Refused(
                ErrorCode.NOT_COORDINATOR,
                f"{self.topic}-{index} does not lead on broker {self._broker.node_id}",
            )
        if slot.loading is not None:
            self._hasten(slot)
        shard = slot.serving
        if shard is not None:
            return shard
        if slot.failure is not None:
            raise Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{slot.replica.name} cannot be read: {slot.failure}"
            )
        raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{slot.replica.name} is being read")

    def serving(self) -> Iterator[tuple[int, S]]:
        """The shards that serve, with their partitions."""
        for index, slot in list(self._slots.items()):
            shard = slot.serving
            if shard is not None:
                yield index, shard

    @property
    def unready(self) -> ErrorCode:
        """Why not all that leads here can be told of; NONE if it can."""
        if any(slot.loading is not None for slot in self._slots.values()):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if any(slot.failure is not None for slot in self._slots.values()):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    @property
    def all_loaded(self) -> bool:
        """Whether everything that leads here is served."""
        return self.unready is ErrorCode.NONE

    def end_transaction(self, index: int, producer: ProducerStamp, commit: bool, offset: Offset) -> None:
        """Tell a shard of a marker that is committed at `offset` in its partition."""
        slot = self._slots.get(index)
        if slot is None or slot.shard is None:
            return
        if slot.loading is None:
            # One that was written while the log was read, and read with it, must not end what came later.
            if offset >= slot.loaded_to:
                slot.shard.machine.end_transaction(producer, commit)
        elif slot.loading.end is not None and offset >= slot.loading.end:
            slot.late_markers.append((producer, commit))

    # --- which partitions lead here

    def reconcile(self) -> None:
        """Take up what leads here now and was written to, and give up what no longer does."""
        topic = self._image()
        for index, slot in list(self._slots.items()):
            if topic is None or not self._leads(index) or self._replica(index) is not slot.replica:
                self._give_up(index)
            elif topic.partitions[index].leader_epoch != slot.epoch:
                self._give_up(index)
                self._open(index)
        if topic is None:
            return
        for index in range(len(topic.partitions)):
            replica = self._replica(index)
            if (
                index not in self._slots
                and replica is not None
                and replica.leads
                and self._was_written(replica)
            ):
                self._open(index)

    def image_changed(self, changes: Changes) -> None:
        """Follow the partitions' leaders, and tell the shards."""
        if (
            self.topic in changes.topics
            or any(topic.name == self.topic for topic in changes.deleted)
            # What led here in an earlier life of this broker leads again once the new one is registered.
            or self._broker.node_id in changes.brokers
        ):
            self.reconcile()
        for _, shard in self.serving():
            shard.image_changed(changes)

    def _image(self) -> TopicImage | None:
        return self._broker.image.topics.get(self.topic)

    def _replica(self, index: int) -> Replica | None:
        return self._broker.replicas.get(self.topic, index)

    def _leads(self, index: int) -> bool:
        replica = self._replica(index)
        return replica is not None and replica.leads

    def _was_written(self, replica: Replica) -> bool:
        return any(replica.name in directory for directory in self._broker.directories)

    def _open(self, index: int) -> _Slot[S] | None:
        """Begin to coordinate a partition; None if it does not lead here."""
        topic, replica = self._image(), self._replica(index)
        if topic is None or replica is None or not replica.leads:
            return None
        slot: _Slot[S] = _Slot(self._broker, replica, topic.partitions[index].leader_epoch)
        self._slots[index] = slot
        self._begin_load(slot)
        if not self._was_written(replica):
            self._load_some(slot)
        return slot

    def _give_up(self, index: int) -> None:
        slot = self._slots.pop(index)
        if slot in self._queue:
            self._queue.remove(slot)
        slot.loading = None
        if slot.shard is not None:
            slot.shard.close()

    # --- loading

    def _begin_load(self, slot: _Slot[S]) -> None:
        broker = self._broker
        slot.failure = slot.due = None
        slot.late_markers.clear()
        slot.shard = self._make(
            ShardWorld(
                slot.replica.name,
                slot.epoch,
                ReplicaJournal(broker, slot.replica, slot.epoch),
                broker.clock,
                broker.random,
                slot,
                lambda: broker.settings,
                lambda: broker.image,
                broker.producer_ids.take,
            )
        )
        read_bytes = broker.settings[_LOAD_BYTES[self.topic]]
        slot.loading = Loading(slot.replica, slot.shard.machine, broker.clock, read_bytes)
        self._queue.append(slot)
        broker.alarm.ring_by(broker.clock.now())

    def _hasten(self, slot: _Slot[S]) -> None:
        if self._queue and self._queue[0] is not slot and slot in self._queue:
            self._queue.remove(slot)
            self._queue.appendleft(slot)

    def load_some(self) -> bool:
        """Read on in one log; returns whether there is more to read."""
        if self._queue:
            self._load_some(self._queue[0])
        return bool(self._queue)

    def _load_some(self, slot: _Slot[S]) -> None:
        loading = slot.loading
        assert loading is not None, slot.replica.name
        try:
            if not loading.step():
                return
        except (StorageError, CorruptDataError) as error:
            self._load_failed(slot, error)
            return
        self._queue.remove(slot)
        assert loading.end is not None, slot.replica.name

        def committed(error: Refused | StorageError | None) -> None:
            # An error says that it leads elsewhere; the image that says so gives the slot up.
            if error is None and slot.loading is loading:
                self._activate(slot, loading)

        when_committed(self._broker, slot.replica, loading.end, committed)

    def _activate(self, slot: _Slot[S], loading: Loading) -> None:
        """Serve: all that was read is committed."""
        assert slot.shard is not None, slot.replica.name
        assert loading.end is not None, slot.replica.name
        slot.loading = None
        slot.loaded_to = loading.end
        slot.shard.machine.loaded()
        for producer, commit in slot.late_markers:
            slot.shard.machine.end_transaction(producer, commit)
        slot.late_markers.clear()
        slot.shard.activated(self._broker.clock.now())
        self._rearm(slot, slot.shard)

    def _load_failed(self, slot: _Slot[S], error: StorageError | CorruptDataError) -> None:
        if isinstance(error, CorruptDataError):
            self._broker.found_corruption(slot.replica, error)
        _log.error(
            "%s cannot be read, so nothing in it is coordinated; tried again in %d s: %s",
            slot.replica.name,
            RETRY_LOAD_MS // 1000,
            error,
        )
        self._queue.remove(slot)
        assert slot.shard is not None, slot.replica.name
        slot.shard.close()
        slot.shard = slot.loading = None
        slot.failure = str(error)
        slot.ring_by(Instant(self._broker.clock.now() + RETRY_LOAD_MS))

    # --- time

    def tick(self, now: Instant) -> None:
        """Tick the shards that are due."""
        for slot in list(self._slots.values()):
            if slot.due is None:
                continue
            if slot.due > now:
                # The alarm has rung for somebody else and knows no other time any more.
                self._broker.alarm.ring_by(slot.due)
                continue
            slot.due = None
            shard = slot.serving
            if shard is not None:
                shard.tick(now)
                self._rearm(slot, shard)
            elif slot.failure is not None:
                self._begin_load(slot)

    def _rearm(self, slot: _Slot[S], shard: S) -> None:
        deadline = shard.deadline()
        if deadline is not None:
            slot.ring_by(deadline)
