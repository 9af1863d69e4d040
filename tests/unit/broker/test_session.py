"""A connection's answers leave in the order of its requests, and it may not pile up requests (O5)."""

import struct
from typing import cast

import pytest

from everlog.broker.broker import Broker
from everlog.broker.exchange import Exchange, Parts
from everlog.broker.session import Session
from everlog.model.errors import ProtocolError

MAX_WAITING = 64


class Desk:
    """Stands where the broker does, and keeps the exchanges to be answered as a test likes."""

    def __init__(self) -> None:
        self.taken: list[Exchange] = []
        self.bodies: list[bytes] = []

    def session_closed(self, session: Session) -> None:
        """Nobody cares here."""

    def dispatch(self, api_key: int, exchange: Exchange, frame: memoryview, after_client_id: int) -> None:
        self.taken.append(exchange)
        self.bodies.append(bytes(frame[after_client_id:]))


class Wire:
    """Keeps what a session does to its connection."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.reading = True
        self.open = True

    def send(self, parts: Parts) -> None:
        self.sent.append(b"".join(part for part in parts if isinstance(part, bytes)))

    def close(self) -> None:
        self.open = False

    def pause(self, reason: str) -> None:
        self.reading = False

    def resume(self, reason: str) -> None:
        self.reading = True


def a_session() -> tuple[Session, Desk, Wire]:
    desk, wire = Desk(), Wire()
    # The session uses no more of the broker than its `dispatch`.
    return Session(cast(Broker, desk), wire, "PLAINTEXT", "127.0.0.1", MAX_WAITING), desk, wire


def a_request(correlation_id: int, client_id: bytes | None = b"me", body: bytes = b"") -> memoryview:
    length = -1 if client_id is None else len(client_id)
    return memoryview(struct.pack(">hhih", 3, 12, correlation_id, length) + (client_id or b"") + body)


def test_answers_wait_for_those_of_earlier_requests() -> None:
    session, desk, wire = a_session()
    for number in range(3):
        session.receive(a_request(number))

    desk.taken[2].answer_parts((b"third",))
    desk.taken[0].answer_parts((b"first",))
    assert wire.sent == [b"first"]
    desk.taken[1].answer_parts((b"second",))

    assert wire.sent == [b"first", b"second", b"third"]
    assert session.idle


def test_a_request_without_an_answer_does_not_hold_up_the_next() -> None:
    session, desk, wire = a_session()
    session.receive(a_request(0))
    session.receive(a_request(1))

    desk.taken[1].answer_parts((b"second",))
    desk.taken[0].answer_nothing(close=False)

    assert wire.sent == [b"second"]
    assert wire.open


def test_the_body_begins_behind_the_client_id_whether_there_is_one_or_not() -> None:
    session, desk, _ = a_session()

    session.receive(a_request(0, b"somebody", b"body"))
    session.receive(a_request(1, None, b"body"))

    assert desk.bodies == [b"body", b"body"]


def test_reading_stops_while_too_many_requests_wait_and_goes_on_after() -> None:
    session, desk, wire = a_session()
    for number in range(MAX_WAITING - 1):
        session.receive(a_request(number))
    assert wire.reading

    session.receive(a_request(MAX_WAITING))
    assert not wire.reading

    desk.taken[0].answer_parts((b"a",))
    assert wire.reading


def test_a_header_that_is_cut_off_is_a_protocol_error() -> None:
    session, _, _ = a_session()

    with pytest.raises(ProtocolError, match="header"):
        session.receive(memoryview(b"\x00\x03\x00"))


def test_an_answer_to_a_closed_connection_goes_nowhere() -> None:
    session, desk, wire = a_session()
    session.receive(a_request(0))

    session.closed()
    assert desk.taken[0].abandoned
    desk.taken[0].answer_parts((b"late",))

    assert wire.sent == []


def test_an_exchange_is_answered_once() -> None:
    session, desk, _ = a_session()
    session.receive(a_request(0))
    desk.taken[0].answer_parts((b"once",))

    with pytest.raises(AssertionError):
        desk.taken[0].answer_parts((b"twice",))
