"""Bytes between processes of one machine leave unpaced."""

import socket

import pytest

from everlog.edge.same_machine import send_unpaced

OURS = ("192.0.2.1", 9092)


class Recorded:
    """A socket between two addresses that keeps what it is told."""

    def __init__(self, ours: object, theirs: object, family: int = socket.AF_INET) -> None:
        self.family = family
        self._ours, self._theirs = ours, theirs
        self.told: list[tuple[int, int, bytes]] = []
        self.refuses = False

    def getsockname(self) -> object:
        return self._ours

    def getpeername(self) -> object:
        return self._theirs

    def setsockopt(self, level: int, option: int, value: bytes, /) -> None:
        if self.refuses:
            raise OSError("not here")
        self.told.append((level, option, value))


pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_CONGESTION"), reason="the system has no choice of congestion controls"
)


@pytest.mark.parametrize(
    ("ours", "theirs", "family"),
    [
        (OURS, ("192.0.2.1", 50_000), socket.AF_INET),
        (("127.0.0.2", 9092), ("127.0.0.1", 50_000), socket.AF_INET),
        (("::1", 9092, 0, 0), ("::1", 50_000, 0, 0), socket.AF_INET6),
    ],
)
def test_a_peer_on_this_machine_is_sent_to_unpaced(ours: object, theirs: object, family: int) -> None:
    made = Recorded(ours, theirs, family)
    send_unpaced(made)
    assert made.told == [(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")]


@pytest.mark.parametrize(
    ("ours", "theirs", "family"),
    [
        (OURS, ("192.0.2.2", 50_000), socket.AF_INET),
        ("/run/socket", "", socket.AF_UNIX),
    ],
)
def test_others_are_left_to_the_system(ours: object, theirs: object, family: int) -> None:
    made = Recorded(ours, theirs, family)
    send_unpaced(made)
    assert made.told == []


def test_a_system_that_does_not_offer_it_is_no_error() -> None:
    made = Recorded(OURS, OURS)
    made.refuses = True
    send_unpaced(made)
    assert made.told == []


def test_the_kernel_does_as_it_is_told() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as made,
    ):
        send_unpaced(made)
        found = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    assert found.rstrip(b"\0") == b"reno"
