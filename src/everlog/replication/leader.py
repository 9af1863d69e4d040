"""LeaderState: a partition as its leader sees it: who is in sync, what is committed (R2-R4, KIP-497, 966).

The controller alone changes the ISR. The leader proposes, and until it hears what became of a proposal, it
counts on both: the controller may have taken it, and whoever may lead next must hold what is committed.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

from everlog.model.dataclass import dataclass
from everlog.model.ids import BrokerId, Instant, Offset


@dataclass(frozen=True, slots=True)
class Appended:
    """The leader's own log has grown, or more of it is as durable as was asked for."""

    end: Offset
    durable: Offset | None = None
    """Up to where it counts; None is all of it. Where records are synced before they are acknowledged, the
    leader counts itself for what it has synced."""


@dataclass(frozen=True, slots=True)
class FollowerFetched:
    """A follower has asked for the log from `start` on, in this leader's epoch: all below it has."""

    follower: BrokerId
    broker_epoch: int
    """Of the follower's process, -1 if it does not say."""
    start: Offset


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class IsrChanged:
    """The metadata log says who is in sync: by our proposal, or because a broker was fenced."""

    isr: frozenset[BrokerId]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class ProposalRefused:
    """The controller has not taken the proposal, and will not: the ISR is as it was."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """Which brokers may be in sync, with the epochs of their processes: alive and not on their way out."""

    eligible: Mapping[BrokerId, int]


@dataclass(frozen=True, slots=True)
class ReplicasChanged:
    """Other brokers hold the partition: it moves, in the same leader epoch."""

    replicas: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class MinInSyncChanged:
    """`min.insync.replicas` of the topic is another."""

    least: int


Event = (
    Appended
    | FollowerFetched
    | Ticked
    | IsrChanged
    | ProposalRefused
    | BrokersChanged
    | ReplicasChanged
    | MinInSyncChanged
)


@dataclass(frozen=True, slots=True)
class AdvanceHighWatermark:
    """All below is committed: consumers may read it, producers that wait for all hear of it."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Ask the controller for this ISR, if the partition is still in that epoch of its changes."""

    isr: Mapping[BrokerId, int]
    """Members, with the epoch of the process that we know each by: one that has started anew is another."""
    partition_epoch: int


Effect = AdvanceHighWatermark | ProposeIsr


@dataclass(slots=True)
class _Follower:
    """What the leader knows of one follower in its epoch."""

    caught_up_at: Instant
    """When it last had all that the leader had."""
    end: Offset | None = None
    """None until it has fetched in this epoch: then its log agrees with ours up to here."""
    broker_epoch: int = -1
    last_leader_end: int = 0
    """The leader's end when it last fetched: who reaches it has caught up as of then, however busy we are."""
    last_fetch_at: int = 0


_NEVER_HEARD_OF = _Follower(Instant(0))
"""Stands for a member of the ISR that is no replica: nothing is committed before that is cleared up."""


class LeaderState:
    """One partition led here, in one leader epoch."""

    def __init__(
        self,
        me: BrokerId,
        replicas: Iterable[BrokerId],
        isr: Iterable[BrokerId],
        partition_epoch: int,
        end: Offset,
        high_watermark: Offset,
        now: Instant,
        *,
        least_in_sync: int = 1,
        lag_ms_max: int = 30_000,
        eligible: Mapping[BrokerId, int] | None = None,
    ) -> None:
        """Begin to lead: the log ends at `end`, and below `high_watermark` it is known to be committed."""
        assert high_watermark <= end, (high_watermark, end)
        self.me = me
        self.isr = frozenset(isr)
        assert me in self.isr, (me, self.isr)
        self.proposed: frozenset[BrokerId] | None = None
        """What was proposed and not answered yet; one at a time."""
        self.high_watermark = high_watermark
        """It never goes back, and is at most the end of every member's log."""
        self.epoch_start = end
        """Where this epoch begins: a follower that has not come so far may still hold what will be cut."""
        self._end = end
        self._durable = end
        """How far the leader counts itself; at most its end."""
        self._partition_epoch = partition_epoch
        self._least = least_in_sync
        self._lag_ms_max = lag_ms_max
        self._eligible = dict(eligible or {})
        self._followers = {broker: _Follower(now) for broker in replicas if broker != me}
        self._counted: list[_Follower] = []
        """Those whose ends decide what is committed: in sync, or proposed to be."""
        self._recount()

    @property
    def end(self) -> Offset:
        """Where the leader's own log ends."""
        return self._end

    @property
    def durable(self) -> Offset:
        """How far the leader counts itself."""
        return self._durable

    @property
    def partition_epoch(self) -> int:
        """How many changes of the partition are known here."""
        return self._partition_epoch

    @property
    def can_take_all(self) -> bool:
        """Whether enough are in sync to take a write that waits for all. Asked before the append (R4)."""
        return len(self.isr) >= self._least

    def has_follower(self, broker: BrokerId) -> bool:
        """Whether a broker holds the partition besides this one."""
        return broker in self._followers

    def end_of(self, broker: BrokerId) -> Offset | None:
        """How far a follower is known to have come in this epoch; None if it has not fetched in it."""
        follower = self._followers.get(broker)
        return None if follower is None else follower.end

    def has_all_of(self, offset: Offset) -> bool | None:
        """Whether a write that ends at `offset` is committed; None if it is and too few are in sync."""
        if self.high_watermark < offset:
            return False
        return True if len(self.isr) >= self._least else None

    def deadline(self) -> Instant | None:
        """When somebody in sync may have fallen behind; None if there is nobody."""
        behind = [
            self._followers[broker].caught_up_at
            for broker in self.isr
            if broker in self._followers and self._lags(self._followers[broker])
        ]
        return Instant(min(behind) + self._lag_ms_max + 1) if behind and self.proposed is None else None

    def step(self, event: Event, now: Instant) -> list[Effect]:
        """Take in one event and return what the world should do about it."""
        match event:
            case Appended(end, durable):
                return self.appended(end, end if durable is None else durable, now)
            case FollowerFetched(follower, broker_epoch, start):
                return self.fetched(follower, broker_epoch, start, now)
            case Ticked():
                return self._shrink(now)
            case IsrChanged(isr, partition_epoch):
                return self._changed(isr, partition_epoch)
            case ProposalRefused():
                self.proposed = None
                self._recount()
                return self._advance() + self._expand()
            case BrokersChanged(eligible):
                self._eligible = dict(eligible)
                return self._expand()
            case ReplicasChanged(replicas):
                return self._moved(replicas, now)
            case MinInSyncChanged(least):
                self._least = least
                return self._advance()
            case _:
                assert_never(event)

    def appended(self, end: Offset, durable: Offset, now: Instant) -> list[Effect]:
        """As the event: the log ends at `end` now, and counts up to `durable`."""
        before = self._end
        assert durable <= end >= before, (durable, end, before)
        if end > before:
            for follower in self._followers.values():
                if follower.end == before:
                    follower.caught_up_at = (
                        now  # It had everything until just now, however long ago it said so.
                    )
            self._end = end
        counted_all, self._durable = self._durable == before, durable
        # Whoever else is counted lacks what was just appended, so that alone commits nothing.
        return [] if counted_all and self._counted else self._advance()

    def fetched(self, broker: BrokerId, broker_epoch: int, start: Offset, now: Instant) -> list[Effect]:
        """As the event: a follower has asked for the log from `start` on, in this leader's epoch."""
        follower = self._followers.get(broker)
        if follower is None or start > self._end:
            return []  # No replica of ours, or one that has what we lack: it has yet to cut its log.
        follower.end = start
        follower.broker_epoch = broker_epoch
        if start >= self._end:
            follower.caught_up_at = now
        elif start >= follower.last_leader_end:
            follower.caught_up_at = Instant(max(follower.caught_up_at, follower.last_fetch_at))
        follower.last_leader_end = self._end
        follower.last_fetch_at = now
        effects = self._advance()
        if broker not in self.isr and self.proposed is None and self._may_join(broker):
            effects += self._propose(self.isr | {broker})
        return effects

    def _expand(self) -> list[Effect]:
        """Propose those in that have everything: a follower with nothing to fetch does not say so again."""
        if self.proposed is not None:
            return []
        joining = {
            broker
            for broker, follower in self._followers.items()
            if broker not in self.isr and not self._lags(follower) and self._may_join(broker)
        }
        return self._propose(self.isr | joining) if joining else []

    def _may_join(self, broker: BrokerId) -> bool:
        follower = self._followers[broker]
        if follower.end is None or self._eligible.get(broker) is None:
            return False
        if follower.broker_epoch not in (-1, self._eligible[broker]):
            return False  # A fetch of its life before the last start: what it had then may be gone (KIP-903).
        return follower.end >= self.high_watermark and follower.end >= self.epoch_start

    def _shrink(self, now: Instant) -> list[Effect]:
        if self.proposed is not None:
            return []
        late = {
            broker
            for broker in self.isr
            if broker in self._followers
            and self._lags(self._followers[broker])
            and now - self._followers[broker].caught_up_at > self._lag_ms_max
        }
        return self._propose(self.isr - late) if late else []

    def _lags(self, follower: _Follower) -> bool:
        return follower.end is None or follower.end < self._end

    def propose_as_it_is(self) -> ProposeIsr:
        """Propose the ISR that there is: this leader has taken over after an unclean election."""
        [effect] = self._propose(self.isr)
        assert isinstance(effect, ProposeIsr)
        return effect

    def _propose(self, isr: frozenset[BrokerId]) -> list[Effect]:
        self.proposed = isr
        self._recount()
        members = {
            broker: -1 if broker == self.me else self._followers[broker].broker_epoch
            for broker in sorted(isr)
        }
        return [ProposeIsr(members, self._partition_epoch)]

    def _changed(self, isr: frozenset[BrokerId], partition_epoch: int) -> list[Effect]:
        if partition_epoch <= self._partition_epoch:
            return []  # Older than what we know.
        self.isr, self._partition_epoch, self.proposed = isr, partition_epoch, None
        self._recount()
        return self._advance() + self._expand()

    def _moved(self, replicas: Iterable[BrokerId], now: Instant) -> list[Effect]:
        known = self._followers
        self._followers = {
            broker: known.get(broker) or _Follower(now) for broker in replicas if broker != self.me
        }
        self._recount()
        return self._advance()

    def _recount(self) -> None:
        # A proposed member counts at once. The controller may have admitted it already, and whoever may lead
        # next has to hold all that we call committed. One proposed out counts until it is.
        counted = self.isr | (self.proposed or frozenset())
        self._counted = [
            self._followers.get(broker, _NEVER_HEARD_OF) for broker in sorted(counted) if broker != self.me
        ]

    def _advance(self) -> list[Effect]:
        if len(self.isr) < self._least:
            return []  # Too few have it to call anything committed (KIP-966).
        committed = self._durable
        for follower in self._counted:
            end = follower.end
            if end is None:
                return []
            if end < committed:
                committed = end
        if committed <= self.high_watermark:
            return []
        self.high_watermark = committed
        return [AdvanceHighWatermark(committed)]
