"""Targets of the wire: request headers, every request, answer and record in every version."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from everlog.metadata.records import decode_record
from everlog.model.errors import CorruptDataError, ProtocolError
from everlog.model.ids import LeaderEpoch, Offset, Uuid
from everlog.wire.apis import APIS, Api, ApiKey
from everlog.wire.codec import (
    RequestHeader,
    decode_request,
    decode_response,
    decode_value,
    encode_request,
    encode_response,
    encode_value,
    is_too_new_api_versions,
    read_request_header,
)
from everlog.wire.generate import module_of
from everlog.wire.hot.fetch import NO_BROKER_EPOCH, FetchData, FetchPartition, read_fetch
from everlog.wire.hot.produce import FIRST_WITH_TOPIC_ID, ProduceData, read_produce
from everlog.wire.hot.replica_fetch import VERSION as REPLICA_FETCH_VERSION
from everlog.wire.hot.replica_fetch import ReplicaAnswer, read_replica_answer
from everlog.wire.message import Message
from everlog.wire.messages.fetch import FetchRequest, FetchResponse
from everlog.wire.messages.produce import ProduceRequest
from everlog.wire.schema import Field, Schema, Struct
from everlog.wire.schemas import all_schemas
from tests.fuzz.target import Target, found

_MAX_ELEMENTS = 20_000
"""Low enough that a decoder which ignores it is seen in the inputs that a fuzzer makes."""

_SCHEMAS: dict[str, Schema] = {schema.name: schema for _, schema in all_schemas()}


def _request_header(data: bytes) -> None:
    """A header is the same over bytes and over a view, and the body begins within the frame."""
    headers: list[RequestHeader | None] = []
    for frame in (data, memoryview(data)):
        try:
            headers.append(read_request_header(frame))
        except ProtocolError:
            headers.append(None)
    found(headers[0] == headers[1], "a header depends on the kind of buffer")
    header = headers[0]
    if header is None:
        return
    found(0 < header.body_at <= len(data), "the body begins outside of the frame")
    if not is_too_new_api_versions(header):
        try:
            decode_request(header, data, _MAX_ELEMENTS)
        except ProtocolError:
            pass


def _request_header_seeds() -> list[bytes]:
    seeds = [
        encode_request(filled_message(f"{api.name}Request", version), version, 7, client_id)[4:]
        for api in APIS.values()
        for version, client_id in ((api.min_version, None), (api.max_version, "fuzz"))
    ]
    tagged_header = bytes.fromhex("0012 0003 00000001 0001 61 02 00 01 78 05 00")
    return [*seeds, tagged_header]


Kind = tuple[type[Message], int]
"""A message and one of its versions."""

_REQUESTS: list[tuple[Api, int]] = [
    (api, version) for api in APIS.values() for version in range(api.min_version, api.max_version + 1)
]


def _class_of(schema: Schema, name: str) -> type[Any]:
    found_class: type[Any] = getattr(import_module(f"everlog.wire.messages.{module_of(schema)}"), name)
    return found_class


@cache
def _kinds(answers: bool) -> list[Kind]:
    """All answers, or all that is neither answer nor request, in every version."""
    return [
        (_class_of(schema, name), version)
        for name, schema in _SCHEMAS.items()
        if name.endswith("Response") == answers and not name.endswith("Request")
        for version in range(schema.versions.first, schema.versions.last + 1)
    ]


def _request(data: bytes) -> None:
    """A request that is read, written and read again is the same one; the hot readers agree with the rest."""
    if len(data) < 2:
        return
    api, version = _REQUESTS[int.from_bytes(data[:2], "big") % len(_REQUESTS)]
    body = data[2:]
    general: Message | ProtocolError
    try:
        general = decode_request(RequestHeader(api.key, version, 0, None, 0), body, _MAX_ELEMENTS)
        _check_identity(general, version)
    except ProtocolError as refusal:
        general = refusal
    hot: Callable[[memoryview, int, int], Any] | None = {
        ApiKey.PRODUCE: read_produce,
        ApiKey.FETCH: read_fetch,
    }.get(api.key)
    if hot is not None:
        _check_hot(hot, version, body, general)


def _check_hot(
    hot: Callable[[memoryview, int, int], Any], version: int, body: bytes, general: Message | ProtocolError
) -> None:
    """Both readers have read the same, or both have refused it."""
    try:
        read = hot(memoryview(body), 0, version)
    except ProtocolError as error:
        found(
            isinstance(general, ProtocolError), f"{general} v{version} is refused by the hot reader: {error}"
        )
        return
    if isinstance(general, ProduceRequest):
        _check_produce(read, general, version)
    elif isinstance(general, FetchRequest):
        _check_fetch(read, general, version)
    else:
        # What is in tagged fields that it has no use for, the hot reader does not look at.
        unused = any(name in str(general) for name in _PASSED_OVER)
        found(unused, f"the hot reader has read {read} in v{version}, which is refused: {general}")


_PASSED_OVER = ("cluster_id", "replica_state", "replica_directory_id", "high_watermark")


def _check_produce(read: ProduceData, message: ProduceRequest, version: int) -> None:
    topics = [
        (
            bytes(topic.topic_id) if version >= FIRST_WITH_TOPIC_ID else topic.name,
            [(one.index, one.records) for one in topic.partition_data],
        )
        for topic in message.topic_data
    ]
    same = (
        read[:3] == (message.transactional_id, message.acks, message.timeout_ms)
        and [topic for topic, _ in read.topics] == [topic for topic, _ in topics]
        and [list(partitions) for _, partitions in read.topics] == [partitions for _, partitions in topics]
    )
    found(same, f"Produce v{version} is {message}, and {read} to the hot reader")


def _check_fetch(read: FetchData, message: FetchRequest, version: int) -> None:
    state = message.replica_state
    expected = FetchData(
        state.replica_id if version >= 15 else message.replica_id,
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
        message.isolation_level == 1,
        message.session_id,
        message.session_epoch,
        [
            FetchPartition(
                bytes(topic.topic_id) if version >= FIRST_WITH_TOPIC_ID else topic.topic,
                one.partition,
                LeaderEpoch(one.current_leader_epoch),
                Offset(one.fetch_offset),
                LeaderEpoch(one.last_fetched_epoch),
                one.log_start_offset,
                one.partition_max_bytes,
            )
            for topic in message.topics
            for one in topic.partitions
        ],
        [
            (bytes(topic.topic_id) if version >= FIRST_WITH_TOPIC_ID else topic.topic, partition)
            for topic in message.forgotten_topics_data
            for partition in topic.partitions
        ],
        message.rack_id,
        state.replica_epoch if version >= 15 else NO_BROKER_EPOCH,
    )
    found(read == expected, f"Fetch v{version} is {expected}, and {read} to the hot reader")


def _check_identity(message: Message, version: int) -> None:
    # Compared as bytes: a float may be no number, which is not equal to itself.
    encoded = encode_value(message, version)
    again = decode_value(type(message), version, encoded, _MAX_ELEMENTS)
    found(
        encode_value(again, version) == encoded, f"{type(message).__name__} v{version} changes when written"
    )


def _answer(data: bytes) -> None:
    _round_trip(data, _kinds(answers=True))


_PASSED_OVER_BY_FOLLOWERS = (
    "throttle_time_ms",
    "current_leader",
    "snapshot_id",
    "aborted_transactions",
    "preferred_read_replica",
    "node_endpoints",
    "bytes come after the message",
)


def _replica_answer(data: bytes) -> None:
    """What a follower reads by hand of a leader's answer is what the general reader reads."""
    frame = memoryview(data)
    general: Message | ProtocolError
    try:
        _, general = decode_response(ApiKey.FETCH, REPLICA_FETCH_VERSION, frame, _MAX_ELEMENTS)
    except ProtocolError as refusal:
        general = refusal
    try:
        read = read_replica_answer(frame)
    except ProtocolError as error:
        found(isinstance(general, ProtocolError), f"{general} is refused by the follower's reader: {error}")
        return
    if not isinstance(general, FetchResponse):
        # What it has no use for, the follower's reader passes over.
        unused = any(name in str(general) for name in _PASSED_OVER_BY_FOLLOWERS)
        found(unused, f"the follower's reader has read {read}, which is refused: {general}")
        return
    expected = [
        ReplicaAnswer(
            bytes(topic.topic_id),
            one.partition_index,
            one.error_code,
            one.high_watermark,
            one.log_start_offset,
            # An epoch that is none says that the logs do not part, as with Kafka.
            None if parting.epoch < 0 else (parting.epoch, parting.end_offset),
            memoryview(one.records) if one.records else None,
        )
        for topic in general.responses
        for one in topic.partitions
        for parting in (one.diverging_epoch,)
    ]
    found(
        read == (general.error_code, general.session_id, expected),
        f"a Fetch answer is {general}, and {read} to the follower's reader",
    )


def _replica_answer_seeds() -> list[bytes]:
    filled = filled_message("FetchResponse", REPLICA_FETCH_VERSION)
    return [encode_response(answer, REPLICA_FETCH_VERSION, 7)[4:] for answer in (filled, FetchResponse())]


def _value(data: bytes) -> None:
    _round_trip(data, _kinds(answers=False))


def _round_trip(data: bytes, kinds: list[Kind]) -> None:
    if len(data) < 2:
        return
    kind, version = kinds[int.from_bytes(data[:2], "big") % len(kinds)]
    try:
        message = decode_value(kind, version, data[2:], _MAX_ELEMENTS)
    except ProtocolError:
        return
    _check_identity(message, version)


def _seeds_of(kinds: list[Kind]) -> list[bytes]:
    return [
        number.to_bytes(2, "big") + encode_value(filled_message(kind.__name__, version), version)
        for number, (kind, version) in enumerate(kinds)
    ]


def _request_seeds() -> list[bytes]:
    return [
        number.to_bytes(2, "big") + encode_value(filled_message(f"{api.name}Request", version), version)
        for number, (api, version) in enumerate(_REQUESTS)
    ]


def _metadata_record(data: bytes) -> None:
    """The value of a record of the metadata log, or of one that only pretends to be."""
    try:
        decode_record(data)
    except CorruptDataError:
        pass


def _metadata_record_seeds() -> list[bytes]:
    return [
        bytes((1, kind.KEY, version)) + encode_value(filled_message(kind.__name__, version), version)
        for kind, version in _kinds(answers=False)
        if kind.FAMILY == "metadata_records" and kind.KEY is not None
    ]


def filled_message(name: str, version: int) -> Message:
    """A message with something in every field that the version has."""
    schema = _SCHEMAS[name]
    message: Message = _filled(schema, schema.body, version)
    return message


def _filled(schema: Schema, struct: Struct, version: int) -> Any:
    fields = {
        field.name: _filled_field(schema, field, version)
        for field in struct.fields
        if field.versions.has(version)
    }
    return _class_of(schema, struct.name)(**fields)


def _filled_field(schema: Schema, field: Field, version: int) -> object:
    samples: dict[str, object] = {
        "bool": True,
        "string": "abc",
        "bytes": b"\x01\x02",
        "records": b"\x03\x04",
        "uuid": Uuid(bytes(range(16))),
        "float64": 1.5,
    }
    one = samples.get(field.type, 1) if field.struct is None else _filled(schema, field.struct, version)
    return [one] if field.array else one


WIRE_TARGETS = (
    Target("request_header", _request_header, _request_header_seeds, weight=2),
    Target("requests", _request, _request_seeds, weight=5),
    Target("answers", _answer, lambda: _seeds_of(_kinds(answers=True)), weight=3),
    Target("replica_answer", _replica_answer, _replica_answer_seeds, weight=2),
    Target("values", _value, lambda: _seeds_of(_kinds(answers=False)), weight=2),
    Target("metadata_record", _metadata_record, _metadata_record_seeds),
)
