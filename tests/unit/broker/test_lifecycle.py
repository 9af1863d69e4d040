"""A broker's life as the controller hears of it: registration, heartbeats, leaving (R5, R8)."""

from collections.abc import Callable

from everlog.broker.lifecycle import Lifecycle
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Offset, Uuid
from everlog.model.settings import broker_settings
from everlog.model.settings.listeners import Listener, SecurityProtocol
from everlog.sim.alarm import SimAlarm
from everlog.sim.clock import SimClock
from everlog.wire.message import Message
from everlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from everlog.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

LISTENER = Listener("PLAINTEXT", "127.0.0.1", 9092, SecurityProtocol.PLAINTEXT)


class Controller:
    """Keeps what it is asked until the test answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[Message, Callable[[Message | Refused], None]]] = []

    def ask(
        self, request: Message, version: int, done: Callable[[Message | Refused], None], timeout_ms: int
    ) -> None:
        self.asked.append((request, done))

    def answer(self, answer: Message | Refused) -> Message:
        """Answer the oldest request, and return it."""
        request, done = self.asked.pop(0)
        done(answer)
        return request


class Life:
    """A life, its clock and its controller."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.controller = Controller()
        self.offset = Offset(7)
        settings = broker_settings({"node.id": "1", "process.roles": "broker,controller"})
        self.life = Lifecycle(
            settings, "c", Uuid(b"i" * 16), [Uuid(b"d" * 16)], -1, self.controller, self.clock, SimAlarm()
        )

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.life.tick(self.clock.now())

    def registered(self) -> "Life":
        self.life.register([LISTENER], lambda refusal: None)
        self.controller.answer(BrokerRegistrationResponse(broker_epoch=5))
        self.life.beat(lambda: self.offset)
        return self


def test_a_broker_whose_earlier_life_counts_as_alive_tries_again() -> None:
    one = Life()
    outcomes: list[Refused | None] = []

    one.life.register([LISTENER], outcomes.append)
    first = one.controller.answer(
        BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    )
    assert isinstance(first, BrokerRegistrationRequest)
    assert not outcomes
    one.pass_time(60)
    one.controller.answer(BrokerRegistrationResponse(broker_epoch=5))

    assert outcomes == [None]
    assert one.life.epoch == 5


def test_what_cannot_be_registered_is_told_by_its_name() -> None:
    one = Life()
    outcomes: list[Refused | None] = []

    one.life.register([LISTENER], outcomes.append)
    one.controller.answer(BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))

    (refusal,) = outcomes
    assert isinstance(refusal, Refused)
    assert refusal.code is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_broker_beats_often_while_it_is_fenced_and_at_leisure_then() -> None:
    one = Life().registered()

    one.controller.answer(BrokerHeartbeatResponse(is_fenced=True))
    one.pass_time(60)
    assert len(one.controller.asked) == 1
    one.controller.answer(BrokerHeartbeatResponse(is_fenced=False))
    one.pass_time(1_000)
    assert not one.controller.asked
    one.pass_time(1_100)
    assert len(one.controller.asked) == 1


def test_a_beat_that_somebody_waits_for_goes_at_once() -> None:
    one = Life().registered()
    one.controller.answer(BrokerHeartbeatResponse(is_fenced=False))

    one.offset = Offset(9)
    one.life.beat_soon()
    one.pass_time(0)

    (beat,) = [request for request, _ in one.controller.asked]
    assert isinstance(beat, BrokerHeartbeatRequest)
    assert beat.current_metadata_offset == 9


def test_what_came_while_a_beat_was_on_its_way_is_told_with_the_next_at_once() -> None:
    one = Life().registered()

    one.offset = Offset(9)
    one.life.beat_soon()
    one.controller.answer(BrokerHeartbeatResponse(is_fenced=False))
    one.pass_time(0)

    (beat,) = [request for request, _ in one.controller.asked]
    assert isinstance(beat, BrokerHeartbeatRequest)
    assert beat.current_metadata_offset == 9


def test_a_broker_leaves_when_the_controller_lets_it_go() -> None:
    one = Life().registered()
    one.controller.answer(BrokerHeartbeatResponse(is_fenced=False))
    left: list[bool] = []

    one.life.leave(lambda: left.append(True))
    beat = one.controller.answer(BrokerHeartbeatResponse(is_fenced=False, should_shut_down=False))
    assert isinstance(beat, BrokerHeartbeatRequest)
    assert beat.want_shut_down
    assert not left
    one.pass_time(60)
    one.controller.answer(BrokerHeartbeatResponse(is_fenced=True, should_shut_down=True))

    assert left == [True]


def test_a_controller_that_does_not_answer_is_asked_again() -> None:
    one = Life().registered()

    one.controller.answer(Refused(ErrorCode.REQUEST_TIMED_OUT, "nobody leads"))
    one.pass_time(60)

    assert len(one.controller.asked) == 1
