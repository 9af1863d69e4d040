"""LeaderState: a partition as its leader sees it: who is in sync, what is committed (R2-R4, KIP-497, 966).

The controller alone changes the ISR. The leader proposes, and until it hears what became of a proposal, it
counts on both: the controller may have taken it, and whoever may lead next must hold what is committed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from everlog.model.ids import BrokerId, Instant, Offset


@dataclass(frozen=True, slots=True)
class Appended:
    """The leader's own log has grown."""

    end: Offset


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
class MinInSyncChanged:
    """`min.insync.replicas` of the topic is another."""

    least: int


Event = Appended | FollowerFetched | Ticked | IsrChanged | ProposalRefused | BrokersChanged | MinInSyncChanged


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
        self._partition_epoch = partition_epoch
        self._least = least_in_sync
        self._lag_ms_max = lag_ms_max
        self._eligible = dict(eligible or {})
        self._followers = {broker: _Follower(now) for broker in replicas if broker != me}

    @property
    def end(self) -> Offset:
        """Where the leader's own log ends."""
        return self._end

    @property
    def can_take_all(self) -> bool:
        """Whether enough are in sync to take a write that waits for all. Asked before the append (R4)."""
        return len(self.isr) >= self._least

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
            case Appended(end):
                assert end >= self._end, (end, self._end)
                self._end = end
                return self._advance()
            case FollowerFetched():
                return self._fetched(event, now)
            case Ticked():
                return self._shrink(now)
            case IsrChanged(isr, partition_epoch):
                return self._changed(isr, partition_epoch)
            case ProposalRefused():
                self.proposed = None
                return self._advance()
            case BrokersChanged(eligible):
                self._eligible = dict(eligible)
                return []
            case MinInSyncChanged(least):
                self._least = least
                return self._advance()
            case _:
                assert_never(event)

    def _fetched(self, event: FollowerFetched, now: Instant) -> list[Effect]:
        follower = self._followers.get(event.follower)
        if follower is None or event.start > self._end:
            return []  # No replica of ours, or one that has what we lack: it has yet to cut its log.
        follower.end = event.start
        follower.broker_epoch = event.broker_epoch
        if event.start >= self._end:
            follower.caught_up_at = now
        elif event.start >= follower.last_leader_end:
            follower.caught_up_at = Instant(max(follower.caught_up_at, follower.last_fetch_at))
        follower.last_leader_end = self._end
        follower.last_fetch_at = now
        effects = self._advance()
        if event.follower not in self.isr and self.proposed is None and self._may_join(event.follower):
            effects += self._propose(self.isr | {event.follower})
        return effects

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

    def _propose(self, isr: frozenset[BrokerId]) -> list[Effect]:
        self.proposed = isr
        members = {
            broker: -1 if broker == self.me else self._followers[broker].broker_epoch
            for broker in sorted(isr)
        }
        return [ProposeIsr(members, self._partition_epoch)]

    def _changed(self, isr: frozenset[BrokerId], partition_epoch: int) -> list[Effect]:
        if partition_epoch <= self._partition_epoch:
            return []  # Older than what we know.
        self.isr, self._partition_epoch, self.proposed = isr, partition_epoch, None
        return self._advance()

    def _advance(self) -> list[Effect]:
        # A proposed member counts at once. The controller may have admitted it already, and whoever may lead
        # next has to hold all that we call committed. One proposed out counts until it is.
        counted = self.isr | (self.proposed or frozenset())
        if len(self.isr) < self._least:
            return []  # Too few have it to call anything committed (KIP-966).
        ends = [self._end if broker == self.me else self._followers[broker].end for broker in counted]
        if any(end is None for end in ends):
            return []
        committed = min(end for end in ends if end is not None)
        if committed <= self.high_watermark:
            return []
        self.high_watermark = committed
        return [AdvanceHighWatermark(committed)]
