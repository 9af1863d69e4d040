"""Replication: the partitions of this broker in their roles, as the metadata gives them out (R1-R7).

A replica leads or follows under one leader epoch. A new one ends whatever was under way in the old: who waits
for records to be committed is told that this is no longer the place to wait. What a leader decides is in
`replication.leader`; this carries it out.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from everlog.broker.commit_waits import CommitWait, CommitWaits
from everlog.broker.handlers.replica_fetch import read_for_follower
from everlog.broker.in_sync import InSyncProposals
from everlog.broker.low_watermarks import LowWatermarks
from everlog.broker.replica_sessions import ReplicaSessions
from everlog.broker.replicas import Replica
from everlog.broker.replication_fetcher import Fetchers
from everlog.broker.replication_quota import ReplicationQuota, is_throttled
from everlog.broker.topic_settings import min_insync_replicas, throttled_replicas
from everlog.log.partition import PartitionLog
from everlog.metadata.delta import Changes
from everlog.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from everlog.model.errors import ErrorCode, StorageError
from everlog.model.ids import BrokerId, Instant, LeaderEpoch, Offset
from everlog.model.settings import broker_table as keys
from everlog.model.topics import TopicPartition
from everlog.replication.follower import FollowerState
from everlog.replication.leader import (
    AdvanceHighWatermark,
    BrokersChanged,
    Effect,
    IsrChanged,
    LeaderState,
    MinInSyncChanged,
    ReplicasChanged,
    Ticked,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_log = logging.getLogger(__name__)

_OPEN_SLICE: Final = 20
"""Logs opened in one go: each takes a while, and others wait meanwhile."""
_OPEN_PAUSE_MS: Final = 10
_LOOKS_PER_LAG: Final = 4
"""How often followers are looked at within `replica.lag.time.max.ms`."""


class Replication:
    """What leads and follows here, and who waits for it."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.broker_epoch: int | None = None
        """Of the registration of this process; until there is one it neither leads nor follows others."""
        self._waits = CommitWaits(broker.alarm)
        self._deletions = LowWatermarks(broker)
        self._proposals = InSyncProposals(broker, self.carry_out)
        self.sending = ReplicationQuota()
        """How much leaders here may send to replicas that are slowed down."""
        self.taking = ReplicationQuota()
        """How much replicas here that are slowed down may take."""
        self._led: dict[Replica, None] = {}
        """Those that lead here and have followers."""
        self._unopened: deque[Replica] = deque()
        """Those in a role that begins when their log is opened."""
        self._look_at = Instant(0)
        self._note_at = Instant(0)
        self._fetchers = Fetchers(broker)
        self.sessions = ReplicaSessions(
            broker.replicas,
            broker.clock,
            broker.alarm,
            partial(read_for_follower, broker),
            broker.settings[keys.FETCH_MAX_BYTES],
        )
        """What followers fetch from here."""
        broker.parked.settle_too(self.sessions.settle)

    # --- what the metadata says

    def registered(self, broker_epoch: int) -> None:
        """This process is registered, in this epoch: the roles of an earlier one were not its own."""
        self.broker_epoch = self._proposals.broker_epoch = broker_epoch
        self._take_in_all()

    def take_in(self, topic: TopicImage) -> None:
        """Hold the partitions of a topic that are this broker's, each in its role."""
        broker = self._broker
        min_insync = min_insync_replicas(broker.settings, broker.image, topic.name)
        for index, partition in enumerate(topic.partitions):
            held = broker.replicas.get(topic.name, index)
            if broker.node_id not in partition.replicas:
                if held is not None:
                    broker.replicas.remove(held)
                    broker.give_up([held])
                continue
            if held is None:
                name = TopicPartition(topic.name, index)
                held = Replica(name, topic.id, LeaderEpoch(-1), min_insync, self._open)
                held.lost = broker.is_lost(name, partition)
                broker.replicas.add(held)
                self._throttle(held)
            if not held.lost:
                self._assign(held, partition)

    def image_changed(self, image: ClusterImage, changes: Changes) -> None:
        """Follow what has changed about brokers; topics come through `take_in`."""
        if not changes.brokers:
            return
        if self._broker.node_id in changes.brokers:
            self._take_in_all()
        eligible = self._eligible()
        now = self._broker.clock.now()
        for replica in list(self._led):
            if replica.leading is not None:
                self.carry_out(replica, replica.leading.step(BrokersChanged(eligible), now))

    def min_insync_changed(self, replica: Replica) -> None:
        """Another number of replicas has to be in sync, by the topic's settings."""
        self._throttle(replica)
        leading = replica.leading
        partition = self._partition(replica)
        if leading is not None and partition is not None:
            now = self._broker.clock.now()
            self.carry_out(replica, leading.step(MinInSyncChanged(_least(replica, partition)), now))

    def _throttle(self, replica: Replica) -> None:
        """Take over which replicas are slowed down while they catch up."""
        broker = self._broker
        by_leader, by_themselves = throttled_replicas(broker.settings, broker.image, replica.name.topic)
        replica.slowed_readers = by_leader
        replica.slowed_here = is_throttled(by_themselves, replica, broker.node_id)
        self.sending.set_rate(broker.settings[keys.LEADER_REPLICATION_THROTTLED_RATE])
        self.taking.set_rate(broker.settings[keys.FOLLOWER_REPLICATION_THROTTLED_RATE])

    def is_in_sync(self, replica: Replica) -> bool:
        """Whether this broker's replica is in sync, as far as the metadata says."""
        partition = self._partition(replica)
        return partition is not None and self._broker.node_id in partition.isr

    def give_up(self, replica: Replica) -> None:
        """The partition is not this broker's any more."""
        self._end_role(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica.leads = False
        replica.leader = NO_LEADER

    def log_moved(self, replica: Replica, log: PartitionLog) -> None:
        """Another log has taken the place of a replica's, with all its records."""
        old = replica.following
        if old is not None:
            self._fetchers.remove(replica, old)
            state = FollowerState(old.leader, old.leader_epoch, log, old.high_watermark)
            replica.following = state
            self._fetchers.add(replica, state, log)

    def lose(self, replica: Replica) -> None:
        """The directory has failed that the replica lies in."""
        self._end_role(replica, ErrorCode.KAFKA_STORAGE_ERROR)
        replica.lost = True
        replica.leads = False
        replica.leader = NO_LEADER
        replica.log = None

    def _take_in_all(self) -> None:
        for topic in self._broker.image.topics.values():
            if topic.name in self._broker.replicas.by_name:
                self.take_in(topic)

    def _partition(self, replica: Replica) -> PartitionImage | None:
        topic = self._broker.image.topics.get(replica.name.topic)
        if topic is None or topic.id != replica.topic_id or replica.name.partition >= len(topic.partitions):
            return None
        return topic.partitions[replica.name.partition]

    # --- roles

    def _assign(self, replica: Replica, partition: PartitionImage) -> None:
        me = self._broker.node_id
        if partition.replicas == (me,):
            self._assign_sole(replica, partition)
            return
        if (
            replica.sole
            or partition.leader_epoch != replica.leader_epoch
            or partition.leader != replica.leader
            or (partition.leader == me) != replica.leads
        ):
            self._begin_role(replica, partition)
        elif replica.leading is not None:
            now = self._broker.clock.now()
            moved = ReplicasChanged(_ids(partition.replicas))
            self.carry_out(replica, replica.leading.step(moved, now))
            changed = IsrChanged(frozenset(_ids(partition.isr)), partition.partition_epoch)
            self.carry_out(replica, replica.leading.step(changed, now))

    def _assign_sole(self, replica: Replica, partition: PartitionImage) -> None:
        """What the only replica has is all that there is, and so it is committed."""
        if not replica.sole:
            self._waits.reached(replica, replica.opened().end_offset, ErrorCode.NONE)
            self._end_role(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            replica.sole = True
        if replica.leader_epoch != partition.leader_epoch and replica.watchers:
            self._broker.parked.changed([replica])
        replica.leader = partition.leader
        replica.leader_epoch = partition.leader_epoch
        replica.leads = partition.leader == self._broker.node_id

    def _begin_role(self, replica: Replica, partition: PartitionImage) -> None:
        if replica.sole and replica.log is not None and replica.leads:
            # It was the only one until now: all that it has is committed.
            replica.noted_high_watermark = replica.log.end_offset
        self._end_role(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica.sole = False
        replica.leader_epoch = partition.leader_epoch
        if not self._is_registered():
            # What this broker led in its last life it may have lost the end of since (KIP-966): the
            # registration of this life begins new epochs where that is so.
            replica.leader = NO_LEADER
            replica.leads = False
            return
        replica.leader = partition.leader
        replica.leads = partition.leader == self._broker.node_id
        if replica.leads:
            self._led[replica] = None
        if replica.log is not None:
            self._enter_role(replica, replica.log, partition)
        elif partition.leader != NO_LEADER:
            self._unopened.append(replica)
            self._broker.alarm.ring_by(self._broker.clock.now())

    def _end_role(self, replica: Replica, code: ErrorCode) -> None:
        """End what is under way in the role that the replica had."""
        self._led.pop(replica, None)
        if not replica.sole and replica.log is not None:
            replica.noted_high_watermark = replica.high_watermark
        if replica.following is not None:
            self._fetchers.remove(replica, replica.following)
        replica.leading = None
        replica.following = None
        for followed in replica.followers.values():
            followed.role_changed()
        replica.syncs_owed = 0
        self._waits.fail(replica, code)
        self._deletions.fail(replica, code)
        if replica.watchers:
            self._broker.parked.changed([replica])

    def _is_registered(self) -> bool:
        """Whether the metadata knows of this process, rather than of an earlier one of this broker."""
        known = self._broker.image.brokers.get(self._broker.node_id)
        return known is not None and known.epoch == self.broker_epoch

    def _open(self, replica: Replica) -> PartitionLog:
        """Open a replica's log; what role it has begins with that."""
        log = self._broker.open_log(replica)
        replica.log = log
        if replica.sole:
            return log
        for directory in self._broker.directories:
            if directory.path == replica.directory:
                noted = directory.high_watermarks.get(replica.name, Offset(0))
                replica.noted_high_watermark = min(noted, log.end_offset)
        partition = self._partition(replica)
        if partition is not None:
            self._enter_role(replica, log, partition)
        return log

    def _enter_role(self, replica: Replica, log: PartitionLog, partition: PartitionImage) -> None:
        if replica.leads:
            self._lead(replica, log, partition)
        elif partition.leader != NO_LEADER and self._is_registered():
            if log.damaged_at is not None and not self._give_up_damaged(replica, log, partition):
                return
            log.forget_empty_epochs()
            state = FollowerState(
                partition.leader, replica.leader_epoch, log, min(replica.noted_high_watermark, log.end_offset)
            )
            replica.following = state
            self._fetchers.add(replica, state, log)

    def _give_up_damaged(self, replica: Replica, log: PartitionLog, partition: PartitionImage) -> bool:
        """Give up what is damaged if nobody counts on this replica; returns whether it can follow."""
        me = self._broker.node_id
        if me in partition.isr or me in partition.eligible_leaders:
            return True
        try:
            start = log.give_up_damaged()
        except StorageError as error:
            _log.error("%s is damaged and cannot be mended: %s", replica.name, error)
            return False
        _log.warning(
            "%s is fetched again from %d on, where it is damaged, from broker %d",
            replica.name,
            start,
            partition.leader,
        )
        return True

    def _lead(self, replica: Replica, log: PartitionLog, partition: PartitionImage) -> None:
        broker = self._broker
        # Also an epoch without records is one: a follower that asks for what comes after an epoch that this
        # log has nothing of must hear where the last one that it has ended.
        log.begin_epoch(replica.leader_epoch)
        now = broker.clock.now()
        leading = replica.leading = LeaderState(
            broker.node_id,
            _ids(partition.replicas),
            _ids(partition.isr),
            partition.partition_epoch,
            log.end_offset,
            min(replica.noted_high_watermark, log.end_offset),
            now,
            least_in_sync=_least(replica, partition),
            lag_ms_max=broker.settings[keys.REPLICA_LAG_TIME_MAX_MS],
            eligible=self._eligible(),
        )
        if partition.recovering:
            self.carry_out(replica, [leading.propose_as_it_is()])
        self.carry_out(replica, leading.appended(log.end_offset, log.end_offset, now))

    def _eligible(self) -> dict[BrokerId, int]:
        return {broker.id: broker.epoch for broker in self._broker.image.active_brokers()}

    # --- what happens to the log

    def appended(self, replica: Replica, size: int, wait_for_sync: bool = False) -> None:
        """Take in that a partition led here has `size` bytes more: whoever waits for them may have them.

        With `wait_for_sync` they count as committed here once they are synced (`flush.messages`, `flush.ms`).
        """
        if replica.sole:
            if wait_for_sync:
                replica.sync_wanted = replica.opened().end_offset
            if replica.watchers:
                self._broker.parked.appended(replica, size)
            return
        leading, log = replica.leading, replica.log
        assert leading is not None, replica.name
        assert log is not None, replica.name
        end = log.end_offset
        if wait_for_sync:
            replica.sync_wanted = end
            replica.syncs_owed += 1
            self._broker.group_commit.wait(log, end, log.sync_due_at, partial(self._synced, replica, leading))
        durable = leading.durable if replica.syncs_owed else end
        effects = leading.appended(end, durable, self._broker.clock.now())
        if effects:
            self.carry_out(replica, effects)
        for followed in replica.followers.values():
            followed.has_more()

    def _synced(self, replica: Replica, leading: LeaderState, durable: bool) -> None:
        log = replica.log
        if replica.leading is not leading or log is None:
            return
        replica.syncs_owed -= 1
        if durable:
            end = log.end_offset
            counted = end if not replica.syncs_owed else max(leading.durable, min(log.recovery_point, end))
            self.carry_out(replica, leading.appended(end, counted, self._broker.clock.now()))
        else:
            self._waits.fail(replica, ErrorCode.KAFKA_STORAGE_ERROR)

    def when_committed(
        self,
        replica: Replica,
        end: Offset,
        done: Callable[[ErrorCode], None],
        *,
        deadline: Instant | None = None,
        while_enough: bool = False,
    ) -> None:
        """Call `done` once all below `end` is committed, which may be now: NONE, or why not.

        NOT_LEADER_OR_FOLLOWER when the partition leads here no more, REQUEST_TIMED_OUT after `deadline`,
        NOT_ENOUGH_REPLICAS_AFTER_APPEND where too few are in sync by then or, with `while_enough`, as soon as
        that is so, KAFKA_STORAGE_ERROR where it cannot be synced.
        """
        if replica.sole:
            self._when_synced(replica, end, done)
            return
        leading = replica.leading
        if leading is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        has_all = leading.has_all_of(end)
        if has_all:
            done(ErrorCode.NONE)
        elif has_all is None or (while_enough and not leading.can_take_all):
            done(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        else:
            self._waits.add(replica, CommitWait(end, done, deadline, while_enough))

    def _when_synced(self, replica: Replica, end: Offset, done: Callable[[ErrorCode], None]) -> None:
        log = replica.opened()
        if end > replica.sync_wanted or end <= log.recovery_point:
            done(ErrorCode.NONE)
            return

        def synced(durable: bool) -> None:
            done(ErrorCode.NONE if durable else ErrorCode.KAFKA_STORAGE_ERROR)

        self._broker.group_commit.wait(log, end, log.sync_due_at, synced)

    def carry_out(self, replica: Replica, effects: list[Effect]) -> None:
        """Do what the leader of a partition has decided."""
        leading = replica.leading
        assert leading is not None, replica.name
        if not leading.can_take_all:
            self._waits.too_few(replica)
        for effect in effects:
            if isinstance(effect, AdvanceHighWatermark):
                self._advanced(replica, effect.high_watermark)
            else:
                self._proposals.propose(replica, leading, effect)

    def _advanced(self, replica: Replica, high_watermark: Offset) -> None:
        self._waits.reached(replica, high_watermark, ErrorCode.NONE)
        if replica.watchers:
            self._broker.parked.committed(replica)
        for followed in replica.followers.values():
            followed.has_news()

    def when_deleted(
        self, replica: Replica, offset: Offset, deadline: Instant, done: Callable[[ErrorCode, Offset], None]
    ) -> None:
        """Call `done` with the low watermark once no replica that is alive has anything before `offset`."""
        if replica.leading is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER, Offset(-1))
            return
        for followed in replica.followers.values():
            followed.has_news()
        self._deletions.wait(replica, offset, deadline, done)

    def follower_start_moved(self, replica: Replica) -> None:
        """A follower has said where its log begins, which those may wait for who had records deleted."""
        self._deletions.moved(replica)

    # --- time

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        self._waits.tick(now)
        self._deletions.tick(now)
        self._proposals.tick(now)
        self._fetchers.tick(now)
        self.sessions.tick(now)
        if self._unopened:
            self._open_some(now)
        if now >= self._note_at:
            # What a leader knows as committed is what it may show right after its next start.
            first = self._note_at == 0
            self._note_at = Instant(
                now + self._broker.settings[keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS]
            )
            if not first and self._has_replicated():
                self._broker.checkpoint_start_offsets(lambda _durable: None)
        if self._has_replicated():
            self._broker.alarm.ring_by(self._note_at)
        if not self._led:
            return
        if now >= self._look_at:
            lag_ms = self._broker.settings[keys.REPLICA_LAG_TIME_MAX_MS]
            self._look_at = Instant(now + max(lag_ms // _LOOKS_PER_LAG, 1))
            for replica in list(self._led):
                leading = replica.leading
                if leading is not None:
                    self.carry_out(replica, leading.step(Ticked(), now))
        self._broker.alarm.ring_by(self._look_at)

    def _open_some(self, now: Instant) -> None:
        """Open the logs that have a role, a few at a time."""
        for _ in range(min(_OPEN_SLICE, len(self._unopened))):
            replica = self._unopened.popleft()
            if replica.log is not None or replica.leader == NO_LEADER:
                continue
            try:
                replica.opened()
            except StorageError as error:
                _log.error("%s cannot be opened and is out of use: %s", replica.name, error)
        if self._unopened:
            self._broker.alarm.ring_by(Instant(now + _OPEN_PAUSE_MS))

    def _has_replicated(self) -> bool:
        return bool(self._led) or not self._fetchers.is_idle

    # --- checkpoints

    def note_high_watermarks(self) -> None:
        """Bring the high watermarks up to date that go into the next checkpoint."""
        for directory in self._broker.directories:
            for log in directory.open_logs:
                replica = self._broker.replicas.get(log.partition.topic, log.partition.partition)
                if replica is not None and replica.log is log:
                    directory.high_watermarks[log.partition] = replica.high_watermark


def _ids(brokers: tuple[int, ...]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in brokers)


def _least(replica: Replica, partition: PartitionImage) -> int:
    """How many must be in sync for anything to be committed; a partition needs no more than it has."""
    return min(replica.min_insync, len(partition.replicas))
