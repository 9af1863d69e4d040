"""The way to whichever controller is active, on this node or another.

Each errand looks for the active controller and is run there. Where there is none, or it turns out to be none,
or cannot be reached, the errand looks again: as soon as the quorum has another leader, and else after a wait
of 20 ms that grows to 500 ms. When its time is up it ends with REQUEST_TIMED_OUT. An errand that was not
answered may have been carried out all the same.
"""

from collections.abc import Callable
from typing import Final, Protocol

from everlog.broker.direct_exchange import DirectExchange
from everlog.broker.error_answers import says_not_active
from everlog.broker.exchange import Exchange
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Instant
from everlog.peers.address import Address, Unreachable
from everlog.peers.peer import Peer
from everlog.peers.peers import Peers
from everlog.ports.alarm import Alarm
from everlog.ports.clock import Clock
from everlog.wire.apis import ApiKey
from everlog.wire.codec import decode_response
from everlog.wire.message import Message

FIRST_WAIT_MS: Final = 20
MAX_WAIT_MS: Final = 500
LOOK_MS: Final = 20
"""How often those that wait look whether the quorum has another leader."""

SUPERSEDED_MS: Final = 500
"""How long the answer of a controller is waited for that leads no more, as far as we know."""

PATIENCE_MS: Final = 1_000
"""How long a controller has to answer at least, before it is taken for lost."""

_BEATS: Final = frozenset({ApiKey.BROKER_HEARTBEAT, ApiKey.BROKER_REGISTRATION})


class QuorumView(Protocol):
    """What the channel has to know of the quorum."""

    @property
    def node_id(self) -> int:
        """This node."""
        ...

    @property
    def leader(self) -> int | None:
        """Who leads it, as far as this node knows."""
        ...

    @property
    def epoch(self) -> int:
        """The newest epoch that this node knows of."""
        ...

    @property
    def leader_address(self) -> Address | None:
        """Where the leader's controller listens."""
        ...

    @property
    def is_active(self) -> bool:
        """Whether this node leads it, and serves."""
        ...


class LocalDesk(Protocol):
    """This node's own desk."""

    def serve(self, request: Message, exchange: Exchange) -> None:
        """Hand a decoded request to its handler."""
        ...


@dataclass(frozen=True, slots=True)
class NotServed:
    """An errand was not done where it was run, and may be tried again."""

    reason: str


Told = Callable[[object], None]
"""Gets what came of an errand, or NotServed."""


class Errand(Protocol):
    """Something that the active controller is to do."""

    name: str
    lane: str
    """Errands of one lane are answered in order, by one controller."""

    def here(self, desk: LocalDesk, told: Told) -> None:
        """Have it done at this node's own desk."""
        ...

    def there(self, peer: Peer, timeout_ms: int, told: Told) -> None:
        """Have it done by another node."""
        ...

    def end(self, outcome: object) -> None:
        """Take what came of it, or Refused."""
        ...

    @property
    def abandoned(self) -> bool:
        """Whether nobody wants it any more."""
        ...


class _Ask:
    """A request of this node's own."""

    abandoned = False

    def __init__(self, request: Message, version: int, done: Callable[[Message | Refused], None]) -> None:
        assert request.KEY is not None, request
        self.key = ApiKey(request.KEY)
        self.name = self.key.name
        # Answers come in order: a beat does not wait until a thousand partitions have changed.
        self.lane = "beats" if self.key in _BEATS else "channel"
        self._request = request
        self._version = version
        self._done = done

    def here(self, desk: LocalDesk, told: Told) -> None:
        def answered(answer: Message | bytes | None) -> None:
            if isinstance(answer, bytes):
                answer = decode_response(self.key, self._version, memoryview(answer)[4:])[1]
            assert answer is not None, self.name
            told(_unless_not_controller(answer))

        desk.serve(self._request, DirectExchange(self._version, answered))

    def there(self, peer: Peer, timeout_ms: int, told: Told) -> None:
        def answered(answer: Message | Unreachable) -> None:
            if isinstance(answer, Unreachable):
                told(NotServed(answer.reason))
            else:
                told(_unless_not_controller(answer))

        peer.ask(self._request, self._version, timeout_ms, answered)

    def end(self, outcome: object) -> None:
        assert isinstance(outcome, Message | Refused), outcome
        self._done(outcome)


def _unless_not_controller(answer: Message) -> Message | NotServed:
    return NotServed("it is not the active controller") if says_not_active(answer) else answer


_Lead = tuple[int | None, bool, int]
"""Who leads the quorum, whether that is us, and in which epoch: who leads anew knows nothing from before."""


class _Trip:
    """An errand on its way."""

    __slots__ = (
        "asked",
        "attempt",
        "deadline",
        "errand",
        "look_at",
        "reason",
        "seen",
        "superseded_at",
        "timeout_ms",
        "wait_ms",
    )

    def __init__(self, errand: Errand, deadline: Instant, timeout_ms: int) -> None:
        self.errand = errand
        self.deadline = deadline
        self.timeout_ms = timeout_ms
        self.attempt = 0
        """Counts the attempts; what comes of an earlier one is not heard any more."""
        self.asked = False
        """Whether an attempt is under way, rather than a wait."""
        self.seen: _Lead = (None, False, -1)
        """Who led when the attempt or the wait began."""
        self.wait_ms = 0
        self.look_at = Instant(0)
        """When to look again, whoever leads, unless an attempt is under way."""
        self.superseded_at: Instant | None = None
        """Since when the controller that is asked has a successor."""
        self.reason = "there is no active controller"


class ControllerChannel:
    """See the module. Whoever owns it calls `tick` when the alarm rings."""

    def __init__(
        self, quorum: QuorumView, desk: LocalDesk | None, peers: Peers, clock: Clock, alarm: Alarm
    ) -> None:
        self._quorum = quorum
        self._desk = desk
        self._peers = peers
        self._clock = clock
        self._alarm = alarm
        self._trips: dict[_Trip, None] = {}

    def ask(
        self, request: Message, version: int, done: Callable[[Message | Refused], None], timeout_ms: int
    ) -> None:
        """Ask the active controller; `done` gets its response, or Refused, now or later, once."""
        self.run(_Ask(request, version, done), timeout_ms)

    def run(self, errand: Errand, timeout_ms: int) -> None:
        """Have an errand done; it ends once, which may be at once where this node's controller is active."""
        trip = _Trip(errand, Instant(self._clock.now() + timeout_ms), timeout_ms)
        self._trips[trip] = None
        self._attempt(trip)

    @property
    def under_way(self) -> int:
        """Errands that have not ended."""
        return len(self._trips)

    def tick(self, now: Instant) -> None:
        """Give up what is late, and look again where that is due."""
        for trip in list(self._trips):
            if trip not in self._trips:
                continue
            if trip.errand.abandoned:
                del self._trips[trip]
            elif trip.deadline <= now:
                self._give_up(trip)
            elif trip.asked:
                self._check_asked(trip, now)
            elif trip.look_at <= now or self._seen() != trip.seen:
                self._attempt(trip)
        self._arm(now)

    # Steps.

    def _seen(self) -> _Lead:
        return self._quorum.leader, self._quorum.is_active, self._quorum.epoch

    def _attempt(self, trip: _Trip) -> None:
        if trip not in self._trips:
            return
        now = self._clock.now()
        trip.attempt += 1
        trip.superseded_at = None
        trip.seen = self._seen()
        attempt = trip.attempt

        def told(outcome: object) -> None:
            if trip in self._trips and trip.attempt == attempt:
                self._came_back(trip, outcome)

        address = self._quorum.leader_address
        if self._quorum.is_active and self._desk is not None:
            trip.asked = True
            trip.errand.here(self._desk, told)
        elif address is not None and self._quorum.leader != self._quorum.node_id:
            trip.asked = True
            peer = self._peers.at(address, trip.errand.lane)
            # A request that is late ends its connection. One that had little time left when it was sent says
            # nothing of the controller, and others are on that connection: it is given up by us alone.
            trip.errand.there(peer, max(PATIENCE_MS, trip.deadline - now), told)
        else:
            self._wait(trip, now)
        self._arm(now)

    def _came_back(self, trip: _Trip, outcome: object) -> None:
        trip.asked = False
        if isinstance(outcome, NotServed):
            trip.reason = outcome.reason
            self._wait(trip, self._clock.now())
            self._arm(self._clock.now())
            return
        del self._trips[trip]
        trip.errand.end(outcome)

    def _wait(self, trip: _Trip, now: Instant) -> None:
        trip.wait_ms = min(max(FIRST_WAIT_MS, 2 * trip.wait_ms), MAX_WAIT_MS)
        trip.look_at = Instant(now + trip.wait_ms)

    def _check_asked(self, trip: _Trip, now: Instant) -> None:
        """Have an attempt given up whose controller has a successor and does not say so itself."""
        if self._seen() == trip.seen or self._quorum.leader is None:
            trip.superseded_at = None
        elif trip.superseded_at is None:
            trip.superseded_at = now
        elif now - trip.superseded_at >= SUPERSEDED_MS:
            trip.asked = False
            self._attempt(trip)

    def _give_up(self, trip: _Trip) -> None:
        del self._trips[trip]
        trip.errand.end(
            Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"no controller has done {trip.errand.name} within {trip.timeout_ms} ms: {trip.reason}",
            )
        )

    def _arm(self, now: Instant) -> None:
        if self._trips:
            self._alarm.ring_by(Instant(now + LOOK_MS))
