"""What a client's batch must satisfy before it gets an offset."""

from dataclasses import replace
from struct import pack_into

import pytest

from everlog.log.settings import LogSettings
from everlog.log.validate import RecordsRefused, validated
from everlog.model.errors import ErrorCode
from everlog.model.ids import Timestamp
from everlog.records.batch import BatchView
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec
from everlog.records.crc import crc32c
from everlog.records.reader import read_records
from tests.unit.log.builders import NOON, Sequenced, a_batch, values

DEFAULT = LogSettings()
HOUR_MS = 3_600_000


def refusal(batch: BatchView, settings: LogSettings = DEFAULT) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as refused:
        validated(batch, settings, NOON)
    return refused.value


def changed(batch: BatchView, position: int, form: str, value: int) -> BatchView:
    """The batch with one field of its header changed and the checksum made anew."""
    pack_into(form, batch.raw, position, value)
    pack_into(">I", batch.raw, 17, crc32c(batch.raw[21:]))
    return BatchView(batch.raw)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_good_batch_passes_as_it_is(codec: Codec) -> None:
    batch = a_batch(values(5), codec=codec, step_ms=3)
    before = bytes(batch.raw)
    assert validated(batch, DEFAULT, NOON) is batch
    assert bytes(batch.raw) == before


@pytest.mark.parametrize(
    ("position", "form", "value", "code"),
    [
        pytest.param(0, ">q", 5, ErrorCode.INVALID_RECORD, id="base offset"),
        pytest.param(16, ">b", 1, ErrorCode.INVALID_RECORD, id="old format"),
        pytest.param(57, ">i", 0, ErrorCode.INVALID_RECORD, id="no records"),
        pytest.param(57, ">i", -1, ErrorCode.INVALID_RECORD, id="negative count"),
        pytest.param(57, ">i", 2, ErrorCode.INVALID_RECORD, id="count below the offsets"),
        pytest.param(23, ">i", 4, ErrorCode.INVALID_RECORD, id="offsets above the count"),
        pytest.param(21, ">h", 0x20, ErrorCode.INVALID_RECORD, id="control batch"),
        pytest.param(21, ">h", 0x10, ErrorCode.INVALID_RECORD, id="transaction without producer"),
        pytest.param(21, ">h", 0x40, ErrorCode.INVALID_RECORD, id="delete horizon"),
        pytest.param(21, ">h", 0x80, ErrorCode.INVALID_RECORD, id="unknown attribute"),
        pytest.param(21, ">h", 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="unknown codec"),
        pytest.param(21, ">h", 1, ErrorCode.INVALID_RECORD, id="not in that codec"),
        pytest.param(43, ">q", 9, ErrorCode.INVALID_RECORD, id="producer without sequence"),
        pytest.param(61, ">b", 127, ErrorCode.INVALID_RECORD, id="garbled record"),
    ],
)
def test_a_wrong_header_is_refused(position: int, form: str, value: int, code: ErrorCode) -> None:
    assert refusal(changed(a_batch(values(3)), position, form, value)).code is code


def test_a_negative_epoch_with_a_producer_is_refused() -> None:
    assert refusal(a_batch(sender=Sequenced(5, 0, epoch=-1))).code is ErrorCode.INVALID_RECORD


def test_a_sequence_without_a_producer_is_no_idempotence() -> None:
    batch = a_batch(sender=Sequenced(-1, 0, epoch=-1))
    assert validated(batch, DEFAULT, NOON) is batch


def test_a_checksum_that_does_not_hold_may_be_sent_again() -> None:
    batch = a_batch(values(3))
    batch.raw[-1] ^= 1
    refused = refusal(batch)
    assert refused.code is ErrorCode.CORRUPT_MESSAGE
    assert refused.retriable


def test_a_batch_may_have_the_largest_size_and_not_one_byte_more() -> None:
    batch = a_batch(values(3))
    exact = replace(DEFAULT, max_message_bytes=batch.size)
    assert validated(batch, exact, NOON) is batch
    assert (
        refusal(batch, replace(exact, max_message_bytes=batch.size - 1)).code is ErrorCode.MESSAGE_TOO_LARGE
    )


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])  # Snappy does not pack so tightly.
def test_a_batch_that_unpacks_to_a_lot_and_to_many_times_its_size_is_refused(codec: Codec) -> None:
    bomb, plenty = a_batch([bytes(17 << 20)], codec=codec), a_batch([bytes(15 << 20)], codec=codec)

    assert 32 * bomb.size < 100 << 20
    assert refusal(bomb, DEFAULT).code is ErrorCode.INVALID_RECORD
    assert validated(plenty, DEFAULT, NOON) is plenty


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_unpacks_to_too_much_is_refused(codec: Codec) -> None:
    bomb = a_batch([bytes(200_000)], codec=codec)
    settings = replace(DEFAULT, max_decompressed_bytes=100_000)
    assert bomb.size < 20_000
    assert refusal(bomb, settings).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_compacted_topic_names_the_records_without_a_key(codec: Codec) -> None:
    records = [NewRecord(key, b"value", (), NOON) for key in (b"a", None, b"b", None)]
    batch = BatchView(memoryview(build_batch(records, codec=codec)))
    refused = refusal(batch, replace(DEFAULT, cleanup_compact=True))
    assert refused.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refused.record_errors] == [1, 3]
    assert validated(batch, DEFAULT, NOON) is batch


def test_records_too_far_ahead_of_the_clock_are_refused_by_index() -> None:
    batch = a_batch(values(4), timestamp=NOON + HOUR_MS - 1, step_ms=1)
    refused = refusal(batch)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in refused.record_errors] == [2, 3]
    assert validated(a_batch(timestamp=NOON + HOUR_MS), DEFAULT, NOON)


def test_records_too_far_behind_the_clock_are_refused_where_there_is_a_bound() -> None:
    settings = replace(DEFAULT, timestamp_before_max_ms=1000)
    batch = a_batch(values(3), timestamp=NOON - 1001, step_ms=1)
    refused = refusal(batch, settings)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in refused.record_errors] == [0]
    assert validated(batch, DEFAULT, NOON) is batch


def test_a_record_without_a_timestamp_is_never_too_old() -> None:
    settings = replace(DEFAULT, timestamp_before_max_ms=1000)
    assert validated(a_batch(timestamp=-1), settings, NOON)


def test_a_wrong_largest_timestamp_is_corrected() -> None:
    batch = changed(a_batch(values(3), step_ms=5), 35, ">q", NOON + 99_999)
    validated(batch, DEFAULT, NOON)
    again = BatchView(batch.raw)
    assert again.max_timestamp == NOON + 10
    assert again.checksum_holds()


def test_a_client_cannot_pass_its_clock_for_the_brokers() -> None:
    batch = changed(a_batch(values(3), step_ms=5), 21, ">h", 0x08)
    validated(batch, DEFAULT, NOON)
    again = BatchView(batch.raw)
    assert again.attributes == 0
    assert again.checksum_holds()


def test_log_append_time_is_the_brokers_for_every_record() -> None:
    batch = a_batch(values(3), timestamp=5, step_ms=5)
    validated(batch, replace(DEFAULT, log_append_time=True), Timestamp(NOON + 7))
    again = BatchView(batch.raw)
    assert again.checksum_holds()
    assert [record.timestamp for record in read_records(again)] == [NOON + 7] * 3


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("codec", list(Codec))
def test_the_broker_recompresses_where_the_topic_has_another_codec(codec: Codec, target: str) -> None:
    batch = a_batch(values(20), codec=codec, sender=Sequenced(5, 7, 1), step_ms=2)
    settings = replace(DEFAULT, compression_type=target)

    kept = validated(batch, settings, NOON)

    assert kept.codec == settings.target_codec
    assert (kept is batch) == (codec == settings.target_codec)
    assert kept.checksum_holds()
    assert read_records(kept) == read_records(batch)
    assert (kept.producer_id, kept.producer_epoch, kept.base_sequence) == (5, 1, 7)
    assert kept.max_timestamp == batch.max_timestamp


def test_a_batch_that_is_too_large_once_recompressed_is_refused() -> None:
    batch = a_batch([bytes(50_000)], codec=Codec.ZSTD)
    settings = replace(DEFAULT, compression_type="uncompressed", max_message_bytes=10_000)
    assert refusal(batch, settings).code is ErrorCode.MESSAGE_TOO_LARGE
