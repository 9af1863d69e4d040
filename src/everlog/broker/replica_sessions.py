"""What other brokers fetch from here: one session a follower, looked at where something has changed (R1, R2).

A follower tells where it is only when it has moved, and is told only of partitions that have news. So what a
fetch costs depends on what has happened, not on how many partitions there are. A fetch that finds nothing
waits; the next one of the same follower ends its wait, so that a follower can ask for more at any time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from everlog.broker.exchange import Exchange
from everlog.model.ids import BrokerId, Instant, LeaderEpoch, Offset
from everlog.ports.alarm import Alarm
from everlog.ports.clock import Clock
from everlog.wire.hot.fetch import FetchData, FetchPartition, FetchResult, Topic, write_fetch_answer

if TYPE_CHECKING:
    from everlog.broker.replicas import Replica, Replicas

HIGH_WATERMARK_WAIT_MS: Final = 20
"""How long a follower that waits for records is not told of a high watermark that has moved."""

Key = tuple[Topic, int]
Read = Callable[["Followed", int, bool], FetchResult]
"""Reads a partition for a follower, given the room in bytes and whether a batch may be larger than that."""


class Followed:
    """One partition as one follower fetches it."""

    __slots__ = (
        "awaited",
        "is_new",
        "key",
        "last_epoch",
        "leader_epoch",
        "log_start",
        "max_bytes",
        "offset",
        "session",
        "told_high_watermark",
        "told_start",
    )

    def __init__(self, session: "ReplicaSession", key: Key) -> None:
        self.session = session
        self.key = key
        self.leader_epoch = LeaderEpoch(-1)
        self.offset = Offset(0)
        self.last_epoch = LeaderEpoch(-1)
        self.log_start = Offset(0)
        self.max_bytes = 0
        self.is_new = False
        """Whether the follower has just said where it is, and the leader has not been told of it."""
        self.awaited = False
        """Whether it was told something that moves it: nothing more before it has said where it is then."""
        self.told_high_watermark = -1
        self.told_start = -1

    @property
    def follower(self) -> BrokerId:
        """The broker that follows."""
        return self.session.broker

    @property
    def follower_epoch(self) -> int:
        """The epoch of the broker that follows."""
        return self.session.broker_epoch

    def update(self, wanted: FetchPartition) -> None:
        """Take in where the follower is now."""
        self.leader_epoch = wanted.leader_epoch
        self.offset = wanted.fetch_offset
        self.last_epoch = wanted.last_fetched_epoch
        self.log_start = Offset(wanted.start_offset)
        self.max_bytes = wanted.max_bytes
        self.is_new = True
        if not self.awaited:
            # It says so by itself, and may have done so before it heard what it was last told: that counts
            # for nothing then.
            self.told_high_watermark = self.told_start = -1
        self.awaited = False
        self.session.news[self] = None

    def has_more(self) -> None:
        """The partition has grown: the follower is answered when the broker settles."""
        if not self.awaited:
            self.session.news[self] = None
            self.session.wake()

    def waits_its_turn(self) -> None:
        """Its records found no room in the answer, or may not be sent yet: it is looked at again."""
        self.session.news[self] = None

    def has_news(self) -> None:
        """There is something to tell of with the next answer, which does not have to be soon."""
        if not self.awaited:
            self.session.news[self] = None
            self.session.wake_soon()

    def role_changed(self) -> None:
        """The partition leads elsewhere, or in another epoch: the follower hears of it at once."""
        self.awaited = False
        self.session.news[self] = None
        self.session.wake()


class ReplicaSession:
    """All that one follower fetches from here."""

    def __init__(
        self, sessions: "ReplicaSessions", broker: BrokerId, broker_epoch: int, session_id: int
    ) -> None:
        self._sessions = sessions
        self.broker = broker
        self.broker_epoch = broker_epoch
        self.session_id = session_id
        self.epoch = 1
        """That of the next request."""
        self.partitions: dict[Key, Followed] = {}
        self.news: dict[Followed, None] = {}
        """Partitions to look at, those that had to wait first."""
        self._parked: tuple[Exchange, FetchData] | None = None
        self._is_woken = False
        self._has_grown = False
        """Whether something has grown since the fetch that is looked at came."""
        self.deadline: Instant | None = None
        """When the fetch that waits is answered at the latest."""

    def update(self, request: FetchData, replicas: "Replicas") -> None:
        """Take in what the follower says of partitions, new ones and those it gives up."""
        for wanted in request.partitions:
            key = (wanted.topic, wanted.partition)
            followed = self.partitions.get(key)
            if followed is None:
                followed = self.partitions[key] = Followed(self, key)
            replica = replicas.get(*key)
            if replica is not None:
                replica.followers[self.broker] = followed
            followed.update(wanted)
        for key in request.forgotten:
            gone = self.partitions.pop(key, None)
            if gone is not None:
                self.news.pop(gone, None)
                _leave(replicas.get(*key), gone)

    def end(self, replicas: "Replicas") -> None:
        """Forget all of it."""
        for followed in self.partitions.values():
            _leave(replicas.get(*followed.key), followed)
        self.partitions.clear()
        self.news.clear()

    def wake(self) -> None:
        """See to it that the fetch which waits is answered when the broker settles."""
        self._has_grown = True
        if self._parked is not None and not self._is_woken:
            self._is_woken = True
            self._sessions.woken.append(self)

    def wake_soon(self) -> None:
        """See to it that the fetch which waits does not do so for long."""
        if self._parked is not None and not self._is_woken and self.deadline is not None:
            deadline = Instant(self._sessions.clock.now() + HIGH_WATERMARK_WAIT_MS)
            if deadline < self.deadline:
                self.deadline = deadline
                self._sessions.alarm.ring_by(deadline)

    def fetch(self, exchange: Exchange, request: FetchData, *, is_full: bool) -> None:
        """Answer a fetch if there is news, else let it wait; an answer to a full fetch goes at once."""
        may_wait = not is_full and request.max_wait_ms > 0
        self._has_grown = False
        results = self._look(request, may_wait=may_wait)
        if results or not may_wait:
            self._answer(exchange, results)
            return
        self._parked = (exchange, request)
        self._is_woken = False
        wait_ms = min(request.max_wait_ms, HIGH_WATERMARK_WAIT_MS) if self.news else request.max_wait_ms
        self.deadline = Instant(self._sessions.clock.now() + wait_ms)
        self._sessions.alarm.ring_by(self.deadline)
        if self._has_grown:
            # What this fetch committed let somebody write more, such as a transaction's next record.
            self.wake()

    def release(self) -> None:
        """Answer the fetch that waits, whatever there is to say."""
        parked, self._parked, self.deadline = self._parked, None, None
        if parked is not None and not parked[0].abandoned:
            self._answer(parked[0], self._look(parked[1], may_wait=False))

    def _look(self, request: FetchData, *, may_wait: bool) -> dict[Topic, list[FetchResult]]:
        """Look at what may have news; what finds no room in the answer is looked at first the next time.

        Where it `may_wait` there is nothing, if there is nothing but high watermarks and starts that moved.
        """
        found: dict[Topic, list[FetchResult]] = {}
        moved: list[tuple[Followed, FetchResult]] = []
        room = min(request.max_bytes, self._sessions.max_bytes)
        news, self.news = self.news, {}
        total = 0
        for followed in news:
            if followed.awaited:
                continue
            if room <= 0 and not followed.is_new:
                self.news[followed] = None
                continue
            result = self._sessions.read(followed, room, total == 0)
            if result.records is not None:
                total += result.records.length
                room -= result.records.length
            elif result.error_code == 0 and result.diverging is None:
                if (
                    result.high_watermark != followed.told_high_watermark
                    or result.start_offset != followed.told_start
                ):
                    moved.append((followed, result))
                continue
            followed.awaited = True
            self._tell(found, followed, result)
        for followed, result in moved:
            if found or not may_wait:
                self._tell(found, followed, result)
            else:
                self.news[followed] = None
        return found

    def _tell(self, found: dict[Topic, list[FetchResult]], followed: Followed, result: FetchResult) -> None:
        # Who has to cut its log first takes in nothing else.
        is_taken_in = result.diverging is None
        followed.told_high_watermark = result.high_watermark if is_taken_in else -1
        followed.told_start = result.start_offset if is_taken_in else -1
        found.setdefault(followed.key[0], []).append(result)

    def _answer(self, exchange: Exchange, results: dict[Topic, list[FetchResult]]) -> None:
        exchange.answer_parts(
            write_fetch_answer(
                exchange.api_version, exchange.correlation_id, 0, self.session_id, list(results.items())
            )
        )


class ReplicaSessions:
    """The sessions of all followers."""

    def __init__(self, replicas: "Replicas", clock: Clock, alarm: Alarm, read: Read, max_bytes: int) -> None:
        self._replicas = replicas
        self.clock = clock
        self.alarm = alarm
        self.read = read
        self.max_bytes = max_bytes
        """What one answer may hold at most."""
        self.woken: list[ReplicaSession] = []
        self._sessions: dict[BrokerId, ReplicaSession] = {}
        self._opened = 0

    def of(self, broker: BrokerId) -> ReplicaSession | None:
        """The session of a follower; None if it has none."""
        return self._sessions.get(broker)

    def open(self, broker: BrokerId, broker_epoch: int) -> ReplicaSession:
        """Begin anew with a follower; what it waits for in an earlier session is answered."""
        self.close(broker)
        self._opened = (self._opened & 0x7FFFFFFE) + 1
        session = self._sessions[broker] = ReplicaSession(self, broker, broker_epoch, self._opened)
        return session

    def close(self, broker: BrokerId) -> None:
        """Forget a follower."""
        session = self._sessions.pop(broker, None)
        if session is not None:
            session.release()
            session.end(self._replicas)

    def settle(self) -> None:
        """Answer the fetches that were woken."""
        while self.woken:
            woken, self.woken = self.woken, []
            for session in woken:
                session.release()

    def tick(self, now: Instant) -> None:
        """Answer the fetches whose time is up."""
        for session in list(self._sessions.values()):
            if session.deadline is not None:
                if session.deadline <= now:
                    session.release()
                else:
                    self.alarm.ring_by(session.deadline)


def _leave(replica: "Replica | None", followed: Followed) -> None:
    if replica is not None and replica.followers.get(followed.follower) is followed:
        del replica.followers[followed.follower]
