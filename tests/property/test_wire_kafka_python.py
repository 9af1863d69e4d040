"""Byte for byte against the codec inside kafka-python, a second opinion, in both directions."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from warnings import catch_warnings

import pytest
from hypothesis import given

from everlog.model.ids import NO_UUID
from everlog.wire.codec import decode_value, encode_value
from tests.unit.wire.drawing import NAMES, SCHEMAS, a_few, in_version, message_type, messages, versions_of


def _classes() -> dict[str, Any]:
    """Return kafka-python's messages by name, without those that it derives for a single version."""
    # Loading them uses parts of the standard library that are deprecated.
    with catch_warnings(action="ignore", category=DeprecationWarning):
        package = import_module("kafka.protocol")
        for module in pkgutil.walk_packages(package.__path__, "kafka.protocol."):
            if ".old" not in module.name and "generate" not in module.name:
                import_module(module.name)
        base: type[Any] = import_module("kafka.protocol.api_message").ApiMessage
    return {found.__name__: found for found in _subclasses(base) if "_v" not in found.__name__}


def _subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for found in kind.__subclasses__():
        yield found
        yield from _subclasses(found)


CLASSES = _classes()
COVERED = sorted(set(CLASSES) & set(NAMES))


_NO_OPERATIONS = -(2**31)
"""Authorized operations that were not asked for; None there, like an id of zeros."""


def _our_name(ours: Any, name: str) -> str:
    """Return the name that a field of kafka-python's has with us: it shortens some, 4.4 renamed one."""
    for candidate in (name, f"{name}_or_member_epoch", f"cluster_{name}", f"topic_{name}"):
        if candidate in ours.__slots__:
            return candidate
    raise AssertionError(f"{type(ours).__name__} has no field {name}")


def _is_a(kind: type[object], value: object) -> bool:
    return isinstance(value, kind)


def _assert_same(ours: Any, theirs: Any, version: int, where: str) -> None:
    if hasattr(theirs, "_struct"):
        for name, field in theirs._struct.fields.items():
            if field.for_version_q(version):
                our_name = _our_name(ours, name)
                _assert_same(getattr(ours, our_name), getattr(theirs, name), version, f"{where}.{name}")
    elif _is_a(list, theirs):
        assert len(ours) == len(theirs), where
        for one, other in zip(ours, theirs, strict=True):
            _assert_same(one, other, version, where)
    elif _is_a(set, theirs):
        # It keeps the bits of authorized operations as a set of their numbers.
        assert ours & 0xFFFFFFFF == sum(1 << bit for bit in theirs), where
    elif theirs is None and ours in (NO_UUID, _NO_OPERATIONS):
        return
    else:
        assert ours == getattr(theirs, "bytes", theirs), where


@pytest.mark.parametrize("name", COVERED)
def test_kafka_python_reads_what_we_write_and_writes_what_we_read(name: str) -> None:
    schema = SCHEMAS[name]
    kind = message_type(schema)
    theirs = CLASSES[name]
    versions = [version for version in versions_of(schema) if version <= theirs.max_version]

    @a_few(6)
    @given(drawn=messages(name, tame=True))
    def check(drawn: Any) -> None:
        for version in versions:
            message = in_version(schema, drawn, version)
            if name == "ApiVersionsResponse":
                # With an error it reads the body as version 0, whatever it was told (KIP-511).
                message.error_code = 0
            data = encode_value(message, version)
            read = theirs.decode(data, version=version)
            _assert_same(message, read, version, f"{name} v{version}")
            # What it decodes has no header until one is set, and cannot be encoded without.
            read._header = None
            written = bytes(read.encode(version=version))
            assert written == data
            assert decode_value(kind, version, written) == message

    check()


def test_kafka_python_covers_the_apis_of_its_clients() -> None:
    pairs = sum(
        1
        for name in COVERED
        for version in versions_of(SCHEMAS[name])
        if version <= CLASSES[name].max_version
    )

    assert len(COVERED) >= 100
    assert pairs >= 400
