"""Answers that are written a little at a time: one array with many elements, after which nothing comes."""

import struct
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from everlog.wire.apis import APIS, ApiKey
from everlog.wire.codec import encode_response, encode_value
from everlog.wire.message import Message
from everlog.wire.primitives import uvarint

_E = TypeVar("_E")

MOST_AT_ONCE: Final = 126
"""Elements that can be added at once: their count takes one byte in flexible versions."""

_SIZE: Final = struct.Struct(">i")
_CLASSIC_COUNT_BYTES: Final = 4
_COMPACT_COUNT_BYTES: Final = 1
_TAGS: Final = b"\0"


class LongAnswer(Generic[_E]):
    """An answer whose last field is an array, without tagged fields; it is encoded as its elements come."""

    def __init__(
        self, answer_with: Callable[[list[_E]], Message], api_version: int, correlation_id: int
    ) -> None:
        self._answer_with = answer_with
        self._version = api_version
        empty = answer_with([])
        assert empty.KEY is not None, empty
        self._flexible = APIS[ApiKey(empty.KEY)].is_flexible(api_version)
        count_bytes = _COMPACT_COUNT_BYTES if self._flexible else _CLASSIC_COUNT_BYTES
        self._tags = _TAGS if self._flexible else b""
        whole = encode_response(empty, api_version, correlation_id)
        self._head = whole[_SIZE.size : len(whole) - len(self._tags) - count_bytes]
        self._before = len(encode_value(empty, api_version)) - len(self._tags)
        self._pieces: list[bytes] = []
        self._count = 0

    def add(self, elements: list[_E]) -> None:
        """Write more elements, `MOST_AT_ONCE` at most."""
        assert len(elements) <= MOST_AT_ONCE, len(elements)
        encoded = encode_value(self._answer_with(elements), self._version)
        self._pieces.append(encoded[self._before : len(encoded) - len(self._tags)])
        self._count += len(elements)

    def frame(self) -> tuple[bytes, ...]:
        """The whole frame of the answer, in pieces."""
        count = uvarint(self._count + 1) if self._flexible else _SIZE.pack(self._count)
        pieces = (self._head, count, *self._pieces, self._tags)
        return (_SIZE.pack(sum(map(len, pieces))), *pieces)
