"""Byte for byte against kio, an independent codec of Kafka 4.3, in both directions.

Our bytes must give the same values there, field by field, and those values must give the same bytes and be
read back by us. What kio does not have (4.4's new versions, records of the logs) is left to the round trip.
"""

import io
import uuid
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from kio.serial import entity_reader, entity_writer

from everlog.model.ids import NO_UUID
from everlog.wire.codec import decode_value, encode_value
from everlog.wire.generate import module_of
from tests.unit.wire.drawing import NAMES, SCHEMAS, a_few, in_version, message_type, messages, versions_of

_NOT_IN_KIO = {
    "AbortedTxn",
    "UnregisterControllerRequest",
    "UnregisterControllerResponse",
    "GetReplicaLogInfoRequest",
    "GetReplicaLogInfoResponse",
    "QuorumStateData",
}


def _kio_class(name: str, version: int) -> Any:
    """Return kio's class, or None where kio has no such message or version."""
    schema = SCHEMAS[name]
    module = module_of(schema).replace("kraft_version", "k_raft_version")
    try:
        found = import_module(f"kio.schema.{module}.v{version}.{schema.kind}")
    except ModuleNotFoundError:
        return None
    return getattr(found, name)


def _plain(value: Any) -> Any:
    """Return kio's dates, durations, ids and enums as the numbers and bytes that are on the wire."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value


def _our_name(ours: Any, name: str) -> str:
    """Return the name that a field of kio's has with us: kio drops units, and 4.4 has renamed one field."""
    name = name.removesuffix("_").replace("k_raft", "kraft")
    for candidate in (name, f"{name}_ms", f"{name}_or_member_epoch"):
        if candidate in ours.__slots__:
            return candidate
    raise AssertionError(f"{type(ours).__name__} has no field {name}")


def _is_array(value: object) -> bool:
    return isinstance(value, tuple)


def _assert_same(ours: Any, theirs: Any, where: str) -> None:
    if is_dataclass(theirs):
        for field in fields(theirs):
            name = _our_name(ours, field.name)
            _assert_same(getattr(ours, name), getattr(theirs, field.name), f"{where}.{name}")
    elif _is_array(theirs):
        assert len(ours) == len(theirs), where
        for one, other in zip(ours, theirs, strict=True):
            _assert_same(one, other, where)
    elif theirs is None and ours in (NO_UUID, -1):
        # An id of zeros and a time of -1 are "none" there.
        return
    else:
        assert ours == _plain(theirs), where


COVERED = [
    name
    for name in NAMES
    if SCHEMAS[name].kind in ("request", "response", "data", "header") and name not in _NOT_IN_KIO
]


@pytest.mark.parametrize("name", COVERED)
def test_kio_reads_what_we_write_and_writes_what_we_read(name: str) -> None:
    schema = SCHEMAS[name]
    kind = message_type(schema)
    theirs = {version: found for version in versions_of(schema) if (found := _kio_class(name, version))}
    assert theirs, f"kio has no version of {name}"

    @a_few(6)
    @given(drawn=messages(name, tame=True))
    def check(drawn: Any) -> None:
        for version, kio_class in theirs.items():
            message = in_version(schema, drawn, version)
            data = encode_value(message, version)
            read, size = entity_reader(kio_class)(data, 0)
            assert size == len(data)
            _assert_same(message, read, f"{name} v{version}")
            buffer = io.BytesIO()
            entity_writer(kio_class)(buffer, read)
            assert buffer.getvalue() == data
            assert decode_value(kind, version, buffer.getvalue()) == message

    check()


def test_kio_covers_all_but_a_few_known_versions() -> None:
    missing = {
        (name, version)
        for name in COVERED
        for version in versions_of(SCHEMAS[name])
        if _kio_class(name, version) is None
    }

    assert missing == {
        (name + suffix, version)
        for name, version in (("ApiVersions", 5), ("TxnOffsetCommit", 6), ("DeleteGroups", 3))
        for suffix in ("Request", "Response")
    }
