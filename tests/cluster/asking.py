"""Asking one broker of several, and no other."""

import socket
from typing import TypeVar

from everlog.wire.codec import decode_response, encode_request
from everlog.wire.message import Message

M = TypeVar("M", bound=Message)
PATIENCE_SECONDS = 60


def ask(address: str, request: Message, version: int, kind: type[M]) -> M:
    """Ask one broker and no other."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(encode_request(request, version, 7, "a client"))
        stream = connection.makefile("rb")
        frame = stream.read(int.from_bytes(stream.read(4), "big"))
    assert request.KEY is not None
    correlation_id, answer = decode_response(request.KEY, version, frame)
    assert correlation_id == 7
    assert isinstance(answer, kind)
    return answer
