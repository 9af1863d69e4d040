"""Each budget of the decoders, with bytes that break it by one and bytes that just keep it (mission O5)."""

import tracemalloc
from struct import pack

import pytest

from everlog.model.errors import ProtocolError
from everlog.wire.codec import decode_value
from everlog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from everlog.wire.messages.fetch import FetchResponse
from everlog.wire.messages.heartbeat import HeartbeatRequest
from everlog.wire.messages.leader_change_message import LeaderChangeMessage
from everlog.wire.messages.metadata import MetadataRequest, MetadataResponse
from everlog.wire.messages.offset_delete import OffsetDeleteRequest
from everlog.wire.messages.produce import ProduceResponse
from everlog.wire.schema import Struct
from everlog.wire.schemas import all_schemas


def _refused(kind: type, version: int, data: bytes) -> str:
    with pytest.raises(ProtocolError) as refusal:
        decode_value(kind, version, data)
    return str(refusal.value)


def test_a_count_is_at_most_what_the_bytes_that_are_left_can_hold() -> None:
    three = pack(">i", 3) + b"\0\x01a" * 3

    assert decode_value(MetadataRequest, 0, three).topics is not None
    assert _refused(MetadataRequest, 0, pack(">i", 5) + b"\0\x01a" * 3).startswith(
        "MetadataRequest v0: topics: count 5 is more than 9 bytes can hold"
    )


def test_a_huge_count_is_refused_before_anything_is_allocated() -> None:
    tracemalloc.start()
    try:
        _refused(MetadataRequest, 0, pack(">i", 2**31 - 1) + bytes(1000))
        _refused(MetadataRequest, 12, b"\xff\xff\xff\xff\x0f" + bytes(1000))
        _refused(OffsetDeleteRequest, 0, b"\0\0" + pack(">i", 2**30) + bytes(1000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 2_000_000


def test_all_elements_of_a_message_share_one_budget() -> None:
    # Two topics with three partitions each are eight elements.
    topic = b"\0\x01a" + pack(">i3i", 3, 1, 2, 3)
    data = b"\0\x01g" + pack(">i", 2) + topic * 2

    assert len(decode_value(OffsetDeleteRequest, 0, data, max_elements=8).topics) == 2
    with pytest.raises(ProtocolError, match=r"topics\.partitions: count 3 is more"):
        decode_value(OffsetDeleteRequest, 0, data, max_elements=7)


def test_tagged_fields_count_as_elements() -> None:
    data = b"\x01\x01\0" + b"\x02\x05\0\x06\0"

    assert decode_value(MetadataRequest, 12, data, max_elements=2).topics == []
    with pytest.raises(ProtocolError, match="count 2 is more"):
        decode_value(MetadataRequest, 12, data, max_elements=1)


@pytest.mark.parametrize("count", [-2, -(2**31)])
def test_a_negative_count_is_refused(count: int) -> None:
    assert f"topics: count {count} is negative" in _refused(MetadataRequest, 1, pack(">i", count))


def test_a_struct_has_at_most_a_thousand_tagged_fields() -> None:
    def tags(count: int) -> bytes:
        numbers = (bytes((number & 127 | 128, number >> 7)) for number in range(count))
        return bytes((count & 127 | 128, count >> 7)) + b"".join(number + b"\0" for number in numbers)

    body = b"\x01\x01\0"

    assert decode_value(MetadataRequest, 12, body + tags(1000)).topics == []
    assert "1001 tagged fields in one struct, at most 1000" in _refused(
        MetadataRequest, 12, body + tags(1001)
    )


@pytest.mark.parametrize("tags", [b"\x02\x05\0\x05\0", b"\x02\x06\0\x05\0"])
def test_tags_go_up(tags: bytes) -> None:
    assert "comes after tag" in _refused(MetadataRequest, 12, b"\x01\x01\0" + tags)
    assert "comes after tag" in _refused(ProduceResponse, 10, b"\x01\0\0\0\0" + tags)


def test_the_data_of_a_tag_end_where_its_size_says() -> None:
    # Node endpoints, tag 0: an empty array is one byte, and the size says two.
    assert "node_endpoints: its size says 1 bytes more" in _refused(
        ProduceResponse, 10, b"\x01\0\0\0\0" + b"\x01\0\x02\x01\0"
    )
    assert "tag 0 has 9 bytes, 1 are left" in _refused(ProduceResponse, 10, b"\x01\0\0\0\0\x01\0\x09\x01")


@pytest.mark.parametrize("varint", [b"\x80\x80\x80\x80\x80", b"\xff" * 9 + b"\x01"])
def test_a_varint_has_at_most_five_bytes(varint: bytes) -> None:
    assert "topics: a varint is longer than 5 bytes" in _refused(MetadataRequest, 12, varint + bytes(20))


def test_a_varint_has_at_most_32_bits() -> None:
    # A request without topics, and a tag whose number is 2 to the power of 32.
    asked = b"\x01" + bytes(2) + b"\x01" + b"\x80\x80\x80\x80\x10" + b"\0"
    assert "a varint is 4294967296, which has more than 32 bits" in _refused(MetadataRequest, 12, asked)


def test_a_length_is_at_most_what_is_left() -> None:
    assert "group_id: length 9 is too long: 8 bytes are left" in _refused(
        HeartbeatRequest, 0, b"\0\x09" + bytes(8)
    )
    assert "group_id: length 9 is too long: 8 bytes are left" in _refused(
        HeartbeatRequest, 4, b"\x0a" + bytes(8)
    )


def test_a_string_has_at_most_32767_bytes_in_flexible_versions_too() -> None:
    rest = b"\0\0\0\0\x01\0\0"

    longest = decode_value(HeartbeatRequest, 4, b"\x80\x80\x02" + b"a" * 32767 + rest)
    assert len(longest.group_id) == 32767
    assert "length 32768" in _refused(HeartbeatRequest, 4, b"\x81\x80\x02" + b"a" * 32768 + rest)


def test_a_negative_length_other_than_null_is_refused() -> None:
    assert "group_id: length -2 is negative" in _refused(HeartbeatRequest, 0, b"\xff\xfe" + bytes(20))


@pytest.mark.parametrize(
    ("kind", "version", "data", "field"),
    [
        (HeartbeatRequest, 0, b"\xff\xff", "group_id"),
        (HeartbeatRequest, 4, b"\0", "group_id"),
        (MetadataRequest, 0, b"\xff\xff\xff\xff", "topics"),
        (MetadataRequest, 9, b"\x02\0\0", "topics.name"),
        (MetadataResponse, 0, b"\xff\xff\xff\xff", "brokers"),
        (LeaderChangeMessage, 0, b"\0\0\0\0\0\x01\0", "voters|granting_voters"),
    ],
)
def test_null_is_refused_where_the_version_has_none(
    kind: type, version: int, data: bytes, field: str
) -> None:
    refusal = _refused(kind, version, data)

    assert refusal.startswith(f"{kind.__name__} v{version}: ")
    assert any(f": {name}: null" in refusal for name in field.split("|"))


def test_text_that_is_not_utf_8_is_refused() -> None:
    assert "group_id: 'utf-8' codec can't decode" in _refused(HeartbeatRequest, 0, b"\0\x01\xff" + bytes(6))
    assert "responses.topic: 'utf-8' codec" in _refused(
        FetchResponse, 4, bytes(4) + b"\0\0\0\x01\0\x01\xff" + bytes(4)
    )


def test_a_struct_is_null_or_there_and_nothing_between() -> None:
    head = pack(">ih", 0, 0) + b"\0\0" + pack(">ii", 0, 0)

    assert decode_value(ConsumerGroupHeartbeatResponse, 0, head + b"\xff\0").assignment is None
    assert "assignment: marker 2" in _refused(ConsumerGroupHeartbeatResponse, 0, head + b"\x02\x01\0\0")


def test_a_frame_that_ends_too_early_names_the_fields_that_are_missing() -> None:
    assert _refused(HeartbeatRequest, 0, b"\0\x01g\0\0") == (
        "HeartbeatRequest v0: generation_id to member_id: the frame of 5 bytes ends within it"
    )


def test_nothing_comes_after_a_message() -> None:
    assert _refused(MetadataRequest, 0, bytes(5)) == "MetadataRequest v0: 1 bytes come after the message"


def _depth(struct: Struct) -> int:
    return 1 + max((_depth(field.struct) for field in struct.fields if field.struct is not None), default=0)


def test_no_message_nests_deeper_than_its_schema_and_none_of_these_deeper_than_five() -> None:
    depths = {schema.name: _depth(schema.body) for _, schema in all_schemas()}

    assert max(depths.values()) == 5, {name: depth for name, depth in depths.items() if depth > 4}
