"""Control batches: transaction markers and the records of the quorum (P5)."""

import pytest

from everlog.model.errors import CorruptDataError
from everlog.records.batch import batch_at
from everlog.records.control import (
    MARKER_BATCH_BYTES,
    ControlType,
    Producer,
    build_control_batch,
    build_marker,
    control_type,
    marker_coordinator_epoch,
)
from everlog.records.reader import read_records
from tests.unit.records.sections import NOON


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_says_whose_transaction_it_ends_and_how(kind: ControlType) -> None:
    raw = build_marker(
        kind, Producer(900, 4), coordinator_epoch=17, timestamp=NOON, base_offset=55, leader_epoch=3
    )
    batch = batch_at(raw)
    (record,) = read_records(batch)

    assert len(raw) == MARKER_BATCH_BYTES == 78
    assert batch.checksum_holds()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (900, 4, -1)
    assert (batch.base_offset, batch.leader_epoch) == (55, 3)
    assert control_type(record.key) is kind
    assert marker_coordinator_epoch(record.value) == 17
    assert (record.offset, record.timestamp) == (55, NOON)


def test_a_commit_marker_has_the_bytes_that_kafka_writes() -> None:
    raw = build_marker(ControlType.COMMIT, Producer(1, 0), coordinator_epoch=0, timestamp=0)

    assert raw[61:].hex() == "2000000008000000010c00000000000000"


def test_a_leader_change_is_outside_any_transaction() -> None:
    batch = batch_at(build_control_batch(ControlType.LEADER_CHANGE, b"\x00\x00rest", timestamp=NOON))
    (record,) = read_records(batch)

    assert batch.is_control
    assert not batch.is_transactional
    assert batch.producer_id == -1
    assert control_type(record.key) is ControlType.LEADER_CHANGE
    assert record.value == b"\x00\x00rest"


def test_a_type_from_the_future_is_unknown_and_no_error() -> None:
    assert control_type(b"\x00\x00\x00\x63") is None
    assert control_type(b"\x00\x01\x00\x01and more") is ControlType.COMMIT


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_a_key_that_is_none_is_refused(key: bytes | None) -> None:
    with pytest.raises(CorruptDataError, match="control record's key"):
        control_type(key)


@pytest.mark.parametrize("value", [None, b"\x00\x00\x00\x00\x00", b"\xff\xfe\x00\x00\x00\x00"])
def test_a_marker_value_that_is_none_is_refused(value: bytes | None) -> None:
    with pytest.raises(CorruptDataError, match="marker's value"):
        marker_coordinator_epoch(value)
