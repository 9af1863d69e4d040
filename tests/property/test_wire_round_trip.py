"""Every message in every version comes back from its bytes as it went in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.wire.codec import decode_value, encode_value
from tests.unit.wire.drawing import NAMES, SCHEMAS, a_few, in_version, message_type, messages, versions_of


@pytest.mark.parametrize("name", NAMES)
def test_a_message_comes_back_from_its_bytes_in_every_version(name: str) -> None:
    schema = SCHEMAS[name]
    kind = message_type(schema)

    @a_few(16)
    @given(drawn=messages(name))
    def check(drawn: Any) -> None:
        for version in versions_of(schema):
            message = in_version(schema, drawn, version)
            assert decode_value(kind, version, encode_value(message, version)) == message

    check()


@pytest.mark.parametrize("name", [name for name in NAMES if SCHEMAS[name].flexible is not None])
def test_a_tag_that_nobody_knows_is_skipped(name: str) -> None:
    schema = SCHEMAS[name]
    kind = message_type(schema)
    version = schema.versions.last

    @a_few(2)
    @given(drawn=messages(name), data=st.binary(max_size=200))
    def check(drawn: Any, data: bytes) -> None:
        # Without tagged fields of its own the message ends in a count of zero, which becomes one.
        message = in_version(schema, drawn, version)
        for field in schema.body.fields:
            if field.tag is not None:
                setattr(message, field.name, getattr(kind(), field.name))
        plain = encode_value(message, version)
        assert plain.endswith(b"\0")
        size = bytes((len(data) & 127 | 128, len(data) >> 7))
        unknown = plain[:-1] + b"\x01" + b"\xf0\x2e" + size + data
        assert decode_value(kind, version, unknown) == message

    check()
