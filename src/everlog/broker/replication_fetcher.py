"""Fetching what other brokers lead: one fetch a leader at a time, for all its partitions (R1, R6).

A fetch names the partitions whose place has changed since the last; all else is remembered by the leader.
What has to be said while a fetch waits at the leader is said by another, which ends the wait. An answer
counts for a partition only if it has not been asked for anew since: it may be of another leader epoch.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, cast

from everlog.broker.replicas import Replica
from everlog.log.partition import PartitionLog
from everlog.model.errors import CorruptDataError, ErrorCode, ProtocolError, Refused, StorageError
from everlog.model.ids import BrokerId, Instant, LeaderEpoch, Offset
from everlog.model.settings import broker_table as keys
from everlog.replication.follower import Append, Fetched, FollowerState, TruncateTo
from everlog.wire.hot.replica_fetch import (
    Limits,
    ReplicaAnswer,
    Wanted,
    by_topic,
    read_replica_answer,
    write_replica_fetch,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_log = logging.getLogger(__name__)

LANE: Final = "replication"
_MOST_UNDER_WAY: Final = 2
"""One that waits at the leader, and one that ends the wait."""
_MAX_EPOCH: Final = 0x7FFFFFFF
METADATA_WAIT_MS: Final = 20
"""How long a partition waits whose leader, or we, have yet to hear who leads it."""
REST_MS: Final = 500
"""How long a partition rests that cannot be read or written."""
FIRST_WAIT_MS: Final = 10
MOST_WAIT_MS: Final = 500

_WAITS_FOR_METADATA: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
_SESSION_LOST: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class FetchPeer(Protocol):
    """The leader, as a follower reaches it."""

    def ask_frame(self, pieces: Sequence[bytes], timeout_ms: int, done: Callable[[object], None]) -> None:
        """Send a request frame; `done` gets the answer's frame as a view, or why there is none."""
        ...


class Fetching:
    """One partition that is fetched, in one leader epoch."""

    __slots__ = ("key", "listed_in", "log", "owes_sync", "replica", "rests", "state")

    def __init__(self, replica: Replica, state: FollowerState, log: PartitionLog) -> None:
        self.key: tuple[bytes, int] = (bytes(replica.topic_id), replica.name.partition)
        self.replica = replica
        self.state = state
        self.log = log
        self.listed_in = 0
        """The request that last said where it is."""
        self.rests = False
        """Whether it says nothing for now: it waits for a sync, or for better times."""
        self.owes_sync = log.in_doubt
        """Whether a sync has failed: to say where it is would say that it has all before that durably."""


class LeaderFetcher:
    """What is fetched from one broker."""

    def __init__(self, broker: "Broker", leader: BrokerId) -> None:
        self._broker = broker
        self.leader = leader
        self._fetching: dict[tuple[bytes, int], Fetching] = {}
        self._moved: dict[Fetching, None] = {}
        """Those to be named in the next request."""
        self._left: dict[tuple[bytes, int], None] = {}
        """Those that the leader still remembers, and that are not fetched any more."""
        self._session: tuple[int, int] = (0, 0)
        self._line = 0
        """Counts the sessions: answers that come for an earlier one are nobody's."""
        self._request = 0
        self._under_way = 0
        self._wait_ms = 0
        self._next_at: Instant | None = None
        """When to try again, after an attempt that failed."""
        self._resting: list[tuple[Instant, Fetching]] = []

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to fetch."""
        return not self._fetching

    def add(self, fetching: Fetching) -> None:
        """Fetch a partition from now on."""
        self._fetching[fetching.key] = fetching
        self._left.pop(fetching.key, None)
        if fetching.owes_sync:
            self._rest(fetching, REST_MS)
            return
        self._moved[fetching] = None
        self._broker.alarm.ring_by(self._broker.clock.now())

    def remove(self, replica: Replica) -> None:
        """Fetch a partition no more."""
        gone = self._fetching.pop((bytes(replica.topic_id), replica.name.partition), None)
        if gone is not None:
            self._moved.pop(gone, None)
            if gone.listed_in:
                self._left[gone.key] = None

    def tick(self, now: Instant) -> None:
        """Send what is due."""
        if self._resting:
            due = [one for at, one in self._resting if at <= now]
            self._resting = [entry for entry in self._resting if entry[0] > now]
            for one in due:
                self._wake(one)
            if self._resting:
                self._broker.alarm.ring_by(min(at for at, _ in self._resting))
        if self._next_at is not None:
            if self._next_at > now:
                self._broker.alarm.ring_by(self._next_at)
                return
            self._next_at = None
        self.send()

    # --- asking

    def send(self) -> None:
        """Ask for more, unless that is under way and there is nothing new to say."""
        if not self._fetching or self._next_at is not None:
            return
        has_session = self._session[1] != 0
        if self._under_way >= (_MOST_UNDER_WAY if self._moved and has_session else 1):
            return
        peer = self._broker.peer(self.leader, LANE)
        if peer is None:
            self._failed("it is not known where it is")
            return
        settings = self._broker.settings
        self._request += 1
        named = self._moved if has_session else self._fetching.values()
        most = settings[keys.REPLICA_FETCH_MAX_BYTES]
        wanted: dict[bytes, list[Wanted]] = {}
        for one in named:
            if not one.rests:
                one.listed_in = self._request
                wanted.setdefault(one.key[0], []).append(_place(one, most))
        limits = Limits(
            settings[keys.REPLICA_FETCH_WAIT_MAX_MS],
            settings[keys.REPLICA_FETCH_MIN_BYTES],
            settings[keys.REPLICA_FETCH_RESPONSE_MAX_BYTES],
        )
        broker_epoch = self._broker.replication.broker_epoch
        assert broker_epoch is not None, "who is not registered does not fetch"
        frame = write_replica_fetch(
            b"replica-%d" % self._broker.node_id,
            (self._broker.node_id, broker_epoch),
            limits,
            self._session,
            wanted,
            by_topic(self._left) if has_session else {},
        )
        self._moved = {}
        self._left = {}
        self._under_way += 1
        answered = partial(self._answered, self._line, self._request)
        if has_session:
            session_id, epoch = self._session
            self._session = (session_id, 1 if epoch == _MAX_EPOCH else epoch + 1)
        peer.ask_frame((frame,), settings[keys.REPLICA_SOCKET_TIMEOUT_MS], answered)

    def _answered(self, line: int, request: int, answer: object) -> None:
        if line != self._line:
            return
        self._under_way -= 1
        if not isinstance(answer, memoryview):
            self._failed(str(answer))
            return
        try:
            code, session_id, results = read_replica_answer(cast("memoryview[int]", answer))
        except ProtocolError as error:
            self._failed(str(error))
            raise
        if code:
            self._begin_session()
            if code not in _SESSION_LOST:
                self._failed(ErrorCode(code).name)
        else:
            self._wait_ms = 0
            if self._session[1] == 0:
                self._session = (session_id, 1)
            for result in results:
                fetching = self._fetching.get((result.topic_id, result.partition))
                if fetching is not None and not fetching.rests and fetching.listed_in <= request:
                    self._take(fetching, result)
        self.send()
        self._broker.settle()

    def _failed(self, reason: str) -> None:
        """Begin anew a little later."""
        if self._wait_ms == 0:
            _log.info("broker %d cannot be fetched from, and will be again: %s", self.leader, reason)
        self._begin_session()
        self._wait_ms = min(max(FIRST_WAIT_MS, 2 * self._wait_ms), MOST_WAIT_MS)
        self._next_at = Instant(self._broker.clock.now() + self._wait_ms)
        self._broker.alarm.ring_by(self._next_at)

    def _begin_session(self) -> None:
        self._line += 1
        self._under_way = 0
        self._session = (0, 0)
        self._moved = {}
        self._left = {}

    # --- answers

    def _take(self, fetching: Fetching, result: ReplicaAnswer) -> None:
        replica = fetching.replica
        if replica.following is not fetching.state:
            return
        try:
            if result.error_code == 0:
                self._take_good(fetching, result)
            elif result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and result.start_offset >= 0:
                self._begin_log_anew(fetching, Offset(result.start_offset))
            elif result.error_code in _WAITS_FOR_METADATA:
                self._rest(fetching, METADATA_WAIT_MS)
            else:
                self._rest(fetching, REST_MS)
        except (Refused, StorageError, CorruptDataError) as error:
            _log.error("%s cannot be copied from broker %d: %s", replica.name, self.leader, error)
            self._rest(fetching, REST_MS)

    def _take_good(self, fetching: Fetching, result: ReplicaAnswer) -> None:
        state, log, replica = fetching.state, fetching.log, fetching.replica
        diverging = result.diverging
        answer = Fetched(
            state.leader_epoch,
            Offset(result.high_watermark),
            Offset(result.start_offset),
            None if diverging is None else (LeaderEpoch(diverging[0]), Offset(diverging[1])),
        )
        step = state.take(answer)
        if isinstance(step, TruncateTo):
            _log.info(
                "%s is cut to %d, where broker %d went on otherwise", replica.name, step.end, self.leader
            )
            log.truncate_to(step.end)
            self._moved[fetching] = None
            return
        assert isinstance(step, Append), step
        must_sync = False
        if result.records is not None:
            must_sync = log.append_replicated(result.records, self._broker.clock.wall())
        before = state.high_watermark
        state.appended(answer)
        if result.start_offset > log.start_offset:
            log.move_start_to(min(Offset(result.start_offset), log.end_offset))
            self._moved[fetching] = None  # The leader waits to hear of it, where records were deleted.
        if state.high_watermark > before and replica.watchers:
            self._broker.parked.committed(replica)
        if must_sync:
            self._sync(fetching)
        elif result.records is not None:
            wait_ms = self._throttle(replica, len(result.records)) if replica.slowed_here else 0
            if wait_ms:
                self._rest(fetching, wait_ms)
            else:
                self._moved[fetching] = None

    def _throttle(self, replica: Replica, size: int) -> int:
        """Count what a replica that is slowed down has got; returns how long it rests for that."""
        replication = self._broker.replication
        if replication.is_in_sync(replica):
            return 0
        replication.taking.used(size)
        return replication.taking.wait_ms() if replication.taking.is_exceeded(self._broker.clock.now()) else 0

    def _begin_log_anew(self, fetching: Fetching, start: Offset) -> None:
        """Begin where the leader's log begins: it has gone past what is here, or never was there."""
        _log.warning(
            "%s has nothing in common with broker %d: it begins anew at %d",
            fetching.replica.name,
            self.leader,
            start,
        )
        fetching.log.restart_at(start)
        fetching.state.begun_anew()
        self._moved[fetching] = None

    def _sync(self, fetching: Fetching) -> None:
        """Say that the records are here once they are synced, for that is what it means then."""
        log = fetching.log
        fetching.rests = True
        due = log.sync_due_at
        self._broker.group_commit.wait(log, log.end_offset, due, partial(self._synced, fetching))

    def _synced(self, fetching: Fetching, durable: bool) -> None:
        if durable:
            self._go_on(fetching)
            self.send()
        else:
            fetching.owes_sync = True
            self._rest(fetching, REST_MS)

    def _rest(self, fetching: Fetching, wait_ms: int) -> None:
        fetching.rests = True
        due = Instant(self._broker.clock.now() + wait_ms)
        self._resting.append((due, fetching))
        self._broker.alarm.ring_by(due)

    def _wake(self, fetching: Fetching) -> None:
        if not fetching.owes_sync:
            self._go_on(fetching)
        elif self._fetching.get(fetching.key) is fetching:
            if fetching.log.failure is not None:
                self._rest(fetching, REST_MS)
            else:
                fetching.owes_sync = False
                self._sync(fetching)

    def _go_on(self, fetching: Fetching) -> None:
        fetching.rests = False
        if self._fetching.get(fetching.key) is fetching:
            self._moved[fetching] = None


def _place(fetching: Fetching, most: int) -> Wanted:
    place = fetching.state.next_fetch()
    return (
        fetching.key[1],
        place.leader_epoch,
        place.offset,
        place.last_epoch,
        fetching.log.start_offset,
        most,
    )


class Fetchers:
    """The fetchers of a broker, one for each that it follows."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._by_leader: dict[BrokerId, LeaderFetcher] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nothing is followed."""
        return all(fetcher.is_idle for fetcher in self._by_leader.values())

    def add(self, replica: Replica, state: FollowerState, log: PartitionLog) -> None:
        """Fetch a partition from its leader."""
        leader = BrokerId(state.leader)
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            fetcher = self._by_leader[leader] = LeaderFetcher(self._broker, leader)
        fetcher.add(Fetching(replica, state, log))

    def remove(self, replica: Replica, state: FollowerState) -> None:
        """Fetch a partition no more."""
        fetcher = self._by_leader.get(BrokerId(state.leader))
        if fetcher is not None:
            fetcher.remove(replica)

    def tick(self, now: Instant) -> None:
        """Send what is due."""
        for fetcher in list(self._by_leader.values()):
            fetcher.tick(now)
