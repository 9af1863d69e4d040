"""Heartbeats: who is alive, as the active controller knows it, and what a beat asks for (KIP-631, KIP-841).

`Heartbeats` is soft state. It is written nowhere and begins anew with each lead: then every broker that is
not fenced gets a whole session to be heard of. `Beat` is the command behind each heartbeat.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

from everlog.controller.brokers import fenced, leads_any, registration, taken_out, unfenced
from everlog.controller.decisions import Decision, Standing
from everlog.controller.directories import offline_directories
from everlog.controller.partition_changes import CHANGES_PER_DECISION
from everlog.metadata.image import BrokerImage
from everlog.model.dataclass import dataclass
from everlog.model.ids import BrokerId, Instant, Uuid
from everlog.wire.message import Message
from everlog.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord

RETRY_MS: Final = 500
"""How long after a broker was found overdue it is named again, should it still not be fenced."""
EVERYTHING: Final = 2**63 - 1
"""What brokers have reached where there are none to wait for."""
_IN_CONTROLLED_SHUTDOWN: Final = 1


@dataclass(slots=True)
class _Session:
    """What is known of one broker's life."""

    epoch: int
    until: Instant
    """When it is overdue, or is to be named again."""
    lapsed: bool = False
    """Whether it was found overdue and has not been heard of since."""
    metadata_offset: int = -1
    """The last record of the metadata log that it said it has applied."""
    left_at: int | None = None
    """Behind the last record that took something from it on its way out; None while it stays."""


class Heartbeats:
    """When each broker was last heard of. Brokers that are fenced are not waited for."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._sessions: dict[BrokerId, _Session] = {}

    def begin(self, brokers: Iterable[BrokerImage], now: Instant) -> None:
        """Begin anew, as one that has just taken the lead: who is not fenced is given a whole session."""
        self._sessions.clear()
        for broker in brokers:
            if not broker.fenced:
                self.touched(broker.id, broker.epoch, now)

    def touched(self, broker: BrokerId, epoch: int, now: Instant, metadata_offset: int = -1) -> None:
        """A broker that is not fenced was heard of; one of an earlier life is not listened to."""
        session = self._sessions.get(broker)
        until = Instant(now + self._timeout_ms)
        if session is None or session.epoch < epoch:
            self._sessions[broker] = _Session(epoch, until, metadata_offset=metadata_offset)
        elif session.epoch == epoch:
            session.until = until
            session.lapsed = False
            session.metadata_offset = max(session.metadata_offset, metadata_offset)

    def forget(self, broker: BrokerId) -> None:
        """Wait for a broker no more: it is fenced, or its process is known to be gone."""
        self._sessions.pop(broker, None)

    def alive(self, broker: BrokerId, now: Instant) -> bool:
        """Whether a broker that is not fenced was heard of within its session."""
        session = self._sessions.get(broker)
        return session is not None and not session.lapsed and now <= session.until

    def overdue(self, now: Instant) -> list[tuple[BrokerId, int]]:
        """The brokers, with their epochs, that have been silent for too long and should be fenced.

        Each is named once; should it still be here after `RETRY_MS`, it is named again.
        """
        found: list[tuple[BrokerId, int]] = []
        for broker, session in self._sessions.items():
            if now > session.until:
                session.until = Instant(now + RETRY_MS)
                session.lapsed = True
                found.append((broker, session.epoch))
        return found

    def deadline(self) -> Instant | None:
        """When somebody may be overdue; None if nobody is waited for."""
        soonest = min((session.until for session in self._sessions.values()), default=None)
        return None if soonest is None else Instant(soonest + 1)

    def leaving(self, broker: BrokerId, offset: int) -> None:
        """A broker on its way out has nothing more to hand over; the metadata says so up to `offset`."""
        session = self._sessions.get(broker)
        if session is not None:
            session.left_at = offset

    def left_at(self, broker: BrokerId) -> int | None:
        """Behind the last record that took something from a broker on its way out; None while it stays."""
        session = self._sessions.get(broker)
        return None if session is None else session.left_at

    def reached(self, but: BrokerId) -> int:
        """The last metadata record that every other broker has applied, those on their way out left aside."""
        return min(
            (
                session.metadata_offset
                for broker, session in self._sessions.items()
                if broker != but and session.left_at is None
            ),
            default=EVERYTHING,
        )


class BrokerState(Enum):
    """Where a broker is in its life."""

    FENCED = auto()
    ACTIVE = auto()
    LEAVING = auto()
    """It hands over what it leads, and what it is in sync with."""
    GONE = auto()
    """It is fenced and may end."""


@dataclass(frozen=True, slots=True)
class BeatReply:
    """What a broker is told."""

    state: BrokerState
    is_caught_up: bool
    left_at: int | None = None
    """While it is leaving: behind the last record that took something from it, once nothing is left."""

    @property
    def is_fenced(self) -> bool:
        """Whether it may not lead."""
        return self.state in {BrokerState.FENCED, BrokerState.GONE}

    @property
    def should_shut_down(self) -> bool:
        """Whether it may end its process."""
        return self.state is BrokerState.GONE


@dataclass(frozen=True, slots=True)
class Beat:
    """A broker says that it lives, how far it has read, and what it wants."""

    broker: BrokerId
    epoch: int
    metadata_offset: int
    """The last metadata record that it has applied."""
    want_fence: bool = False
    want_shut_down: bool = False
    offline: tuple[Uuid, ...] = ()
    """Log directories that have failed it."""
    left_at: int | None = None
    """What `Heartbeats.left_at` says of it."""
    others_reached: int = EVERYTHING
    """What `Heartbeats.reached` says of the others."""
    limit: int = CHANGES_PER_DECISION

    def decide(self, standing: Standing) -> Decision[BeatReply]:
        """Fence it, take its fence down, or let it go, step by step; Refused for a broker of another life."""
        known = registration(standing.image, self.broker, self.epoch)
        state, records = self._next(standing, known)
        left_at: int | None = None
        if state is BrokerState.LEAVING:
            state, more, left_at = self._handed_over(standing, known)
            records.extend(more)
        if self.offline and not records:
            # Each beat names them, so that they can wait for a decision of their own.
            records.extend(offline_directories(standing, known, self.offline))
        return Decision(tuple(records), BeatReply(state, self.metadata_offset >= self.epoch, left_at))

    def _next(self, standing: Standing, known: BrokerImage) -> tuple[BrokerState, list[Message]]:
        if known.fenced:
            if self.want_shut_down:
                return BrokerState.GONE, []
            # It must know of its own registration, or it would serve by what held in an earlier life.
            if self.want_fence or self.metadata_offset < self.epoch:
                return BrokerState.FENCED, []
            return BrokerState.ACTIVE, unfenced(standing, known)
        if known.in_controlled_shutdown:
            return BrokerState.LEAVING, []
        if self.want_fence:
            gone = BrokerState.GONE if self.want_shut_down else BrokerState.FENCED
            return gone, fenced(standing, known)
        if not self.want_shut_down:
            return BrokerState.ACTIVE, []
        if not leads_any(standing.image, known.id):
            return BrokerState.GONE, fenced(standing, known)
        change = BrokerRegistrationChangeRecord(
            broker_id=known.id, broker_epoch=known.epoch, in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN
        )
        return BrokerState.LEAVING, [change]

    def _handed_over(
        self, standing: Standing, known: BrokerImage
    ) -> tuple[BrokerState, list[Message], int | None]:
        records, more = taken_out(standing, known.id, self.limit)
        if more is not None:
            return BrokerState.LEAVING, records, None
        # The record that begins the way out comes before these.
        begun = 0 if known.in_controlled_shutdown else 1
        if records or begun or self.left_at is None:
            return BrokerState.LEAVING, records, int(standing.next_offset) + begun + len(records)
        if self.others_reached < self.left_at - 1:
            # Others would still send clients and followers here, to a closed door.
            return BrokerState.LEAVING, [], self.left_at
        return BrokerState.GONE, fenced(standing, known), self.left_at
