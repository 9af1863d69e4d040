"""Bytes that are no message are a ProtocolError, whatever they are, and never anything else (mission O5)."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.model.errors import ProtocolError
from everlog.wire.codec import decode_request, decode_value, encode_value, read_request_header
from tests.unit.wire.drawing import NAMES, SCHEMAS, a_few, in_version, message_type, messages, versions_of


@pytest.mark.parametrize("name", NAMES)
def test_a_message_that_is_cut_short_is_refused_wherever_it_is_cut(name: str) -> None:
    schema = SCHEMAS[name]
    kind = message_type(schema)

    @a_few(3)
    @given(drawn=messages(name, tame=True), version=st.sampled_from(versions_of(schema)))
    def check(drawn: Any, version: int) -> None:
        data = encode_value(in_version(schema, drawn, version), version)
        for end in {*range(min(len(data), 40)), *range(0, len(data), 37)}:
            with pytest.raises(ProtocolError, match=name):
                decode_value(kind, version, data[:end])
        with pytest.raises(ProtocolError, match="1 bytes come after the message"):
            decode_value(kind, version, data + b"\0")

    check()


@pytest.mark.parametrize("name", NAMES)
def test_flipped_bytes_give_a_message_or_a_protocol_error(name: str) -> None:
    schema = SCHEMAS[name]
    kind = message_type(schema)

    @a_few(3)
    @given(
        drawn=messages(name, tame=True),
        version=st.sampled_from(versions_of(schema)),
        edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=20, max_size=20),
    )
    def check(drawn: Any, version: int, edits: list[tuple[int, int]]) -> None:
        data = encode_value(in_version(schema, drawn, version), version)
        for at, value in edits:
            changed = bytearray(data or b"\0")
            changed[at % len(changed)] = value
            with suppress(ProtocolError):
                decode_value(kind, version, changed)

    check()


@settings(max_examples=300, deadline=None)
@given(frame=st.binary(max_size=60), key=st.integers(-1, 95), version=st.integers(-1, 19))
def test_any_frame_gives_a_request_or_a_protocol_error(frame: bytes, key: int, version: int) -> None:
    opening = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    with suppress(ProtocolError):
        decode_request(read_request_header(opening + frame), opening + frame)
