"""Large requests go to the socket at once; what it does not take is left for the transport."""

import socket
from collections.abc import Generator

import pytest

from everlog.client.drive.direct_writes import DirectWrites

_MANY = 64 * 1024 * 1024
"""More than any socket takes at once."""


@pytest.fixture
def pair() -> Generator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_what_fits_is_sent_whole_and_in_order(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    direct = DirectWrites.beside(ours)
    assert direct is not None
    assert direct.write([b"head", bytearray(b"batch"), memoryview(b"tail")]) == []
    assert theirs.recv(100) == b"headbatchtail"
    direct.close()


def test_what_does_not_fit_is_left_from_the_first_byte_that_was_not_sent(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    direct = DirectWrites.beside(ours)
    assert direct is not None
    batch = bytes(range(256)) * (_MANY // 256)
    left = direct.write([b"head", batch, b"tail"])
    assert [len(piece) for piece in left[1:]] == [4]
    sent = len(b"head") + len(batch) - len(left[0])
    got = b""
    while len(got) < sent:
        got += theirs.recv(sent - len(got))
    assert got + bytes(left[0]) == b"head" + batch

    full = direct.write(left)
    while full != left:  # A socket whose buffer has just been emptied takes more.
        left, full = full, direct.write(full)
    direct.close()


def test_a_connection_that_has_ended_leaves_everything(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    direct = DirectWrites.beside(ours)
    assert direct is not None
    theirs.close()
    assert direct.write([b"too late"]) == [b"too late"]
    direct.close()


def test_the_connection_ends_when_both_have_closed(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    direct = DirectWrites.beside(ours)
    assert direct is not None
    ours.close()
    direct.close()
    assert theirs.recv(1) == b""
