"""A stream is split into frames however it arrives, and what is no frame is refused at once (mission O5)."""

import pytest

from everlog.model.errors import ProtocolError
from everlog.wire.frames import MAX_FRAME_BYTES, FrameSplitter, check_frame_size

STREAM = b"\0\0\0\x03abc" + b"\0\0\0\0" + b"\0\0\0\x01d"


@pytest.mark.parametrize("step", range(1, len(STREAM) + 1))
def test_frames_come_out_whole_however_the_bytes_come_in(step: int) -> None:
    splitter = FrameSplitter()

    frames = [f for at in range(0, len(STREAM), step) for f in splitter.feed(STREAM[at : at + step])]

    assert frames == [b"abc", b"", b"d"]
    assert splitter.buffered == 0


def test_a_frame_that_is_not_whole_waits() -> None:
    splitter = FrameSplitter()

    assert splitter.feed(STREAM[:5]) == []
    assert splitter.buffered == 5
    assert splitter.feed(memoryview(STREAM)[5:7]) == [b"abc"]


def test_a_frame_may_have_as_many_bytes_as_the_limit_and_no_more() -> None:
    check_frame_size(0, 10)
    check_frame_size(10, 10)
    with pytest.raises(ProtocolError, match="11 bytes is more than the limit of 10"):
        check_frame_size(11, 10)
    with pytest.raises(ProtocolError, match="2147483647 bytes"):
        FrameSplitter().feed(b"\x7f\xff\xff\xff")


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ProtocolError, match="-1 bytes"):
        FrameSplitter().feed(b"\xff\xff\xff\xff")


@pytest.mark.parametrize("version", range(4))
def test_a_tls_client_is_told_apart(version: int) -> None:
    hello = bytes((22, 3, version, 2, 0, 1, 0, 1, 252, 3, 3))

    with pytest.raises(ProtocolError, match="speaks TLS"):
        FrameSplitter().feed(hello)


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n", b"POST /topics HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n"])
def test_a_web_client_is_told_apart(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="speaks HTTP"):
        FrameSplitter().feed(line)
    assert int.from_bytes(line[:4], "big") > MAX_FRAME_BYTES
