"""What cannot be the size of a frame is refused at once, by what it looks like (mission O5)."""

import pytest

from everlog.model.errors import ProtocolError
from everlog.wire.frames import check_frame_size

MAX_FRAME_BYTES = 104_857_600


def test_a_frame_may_have_as_many_bytes_as_the_limit_and_no_more() -> None:
    check_frame_size(0, 10)
    check_frame_size(10, 10)
    with pytest.raises(ProtocolError, match="11 bytes is more than the limit of 10"):
        check_frame_size(11, 10)
    with pytest.raises(ProtocolError, match="2147483647 bytes"):
        check_frame_size(2**31 - 1, MAX_FRAME_BYTES)


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ProtocolError, match="-1 bytes"):
        check_frame_size(-1, MAX_FRAME_BYTES)


@pytest.mark.parametrize("version", range(4))
def test_a_tls_client_is_told_apart(version: int) -> None:
    hello = bytes((22, 3, version, 2, 0, 1, 0, 1, 252, 3, 3))

    with pytest.raises(ProtocolError, match="speaks TLS"):
        check_frame_size(int.from_bytes(hello[:4], "big"), MAX_FRAME_BYTES)


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n", b"POST /topics HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n"])
def test_a_web_client_is_told_apart(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="speaks HTTP"):
        check_frame_size(int.from_bytes(line[:4], "big"), MAX_FRAME_BYTES)
    assert int.from_bytes(line[:4], "big") > MAX_FRAME_BYTES
