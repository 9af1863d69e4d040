"""The codecs: every dialect that clients write is read, and what is damaged is refused (P3, O5)."""

import gzip
import zlib
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard

from everlog.model.errors import CorruptDataError
from everlog.records import gzip_members
from everlog.records.compression import Codec, compress, decompress

TEXT = b"".join(b"record %d of many; " % i for i in range(6_000))
MAX_BYTES = 1 << 20
PACKED = [codec for codec in Codec if codec is not Codec.NONE]
XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def xerial_block(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return len(block).to_bytes(4, "big") + block


def lz4_frame(
    *, linked: bool = False, size: bool = False, content: bool = False, block: bool = False
) -> bytes:
    library: Any = lz4.frame  # It has no types.
    packed: bytes = library.compress(
        TEXT, block_linked=linked, store_size=size, content_checksum=content, block_checksum=block
    )
    return packed


def zstd_without_size(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(300_000)], ids=["empty", "a byte", "text", "zeros"])
def test_what_is_packed_unpacks_to_itself(codec: Codec, data: bytes) -> None:
    for given in (data, bytearray(data), memoryview(data)):
        packed = compress(codec, given)
        assert decompress(codec, packed, MAX_BYTES) == data
        assert decompress(codec, memoryview(bytearray(packed)), MAX_BYTES) == data


@pytest.mark.parametrize("codec", PACKED)
def test_text_shrinks(codec: Codec) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) / 3


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, range(10)), (Codec.LZ4, range(1, 18)), (Codec.ZSTD, (-5, 1, 3, 19, 22))],
)
def test_every_level_can_be_read(codec: Codec, levels: range) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level), MAX_BYTES) == TEXT


def test_frames_begin_as_java_clients_write_them() -> None:
    assert compress(Codec.GZIP, TEXT)[:3].hex() == "1f8b08"
    assert compress(Codec.SNAPPY, TEXT)[:16] == XERIAL_HEADER
    assert compress(Codec.LZ4, TEXT)[:6].hex() == "04224d186040"
    assert compress(Codec.ZSTD, TEXT)[:4].hex() == "28b52ffd"


def test_both_dialects_of_snappy_are_read() -> None:
    bare = bytes(cramjam.snappy.compress_raw(TEXT))
    stream = XERIAL_HEADER + xerial_block(TEXT[:50_000]) + xerial_block(TEXT[50_000:])

    assert decompress(Codec.SNAPPY, bare, MAX_BYTES) == TEXT
    assert decompress(Codec.SNAPPY, stream, MAX_BYTES) == TEXT


def test_snappy_streams_strung_together_are_read_as_one() -> None:
    stream = compress(Codec.SNAPPY, b"one, ") + compress(Codec.SNAPPY, b"two")

    assert decompress(Codec.SNAPPY, stream, MAX_BYTES) == b"one, two"


def test_gzip_members_strung_together_are_read_as_one() -> None:
    members = gzip.compress(b"one, ") + gzip.compress(b"") + compress(Codec.GZIP, b"two")

    assert decompress(Codec.GZIP, members, MAX_BYTES) == b"one, two"


@pytest.mark.parametrize("library", ["zlib", "isal.isal_zlib"])
def test_gzip_reads_the_same_by_either_library(library: str) -> None:
    loaded = gzip_members._library(library)  # pyright: ignore[reportPrivateUsage] - the fallback is to be tested
    if loaded is None:
        pytest.skip(f"{library} is not installed")
    noise = zlib.compress(TEXT) * 40
    for data in (b"", TEXT, bytes(3_000_000), noise):
        for packed in (
            gzip.compress(data),
            compress(Codec.GZIP, data),
            gzip.compress(data) + gzip.compress(data),
        ):
            assert gzip_members.decompress_by(loaded, packed, 1 << 23) in (data, data + data)
    for bad in (
        gzip.compress(TEXT)[:-1],
        gzip.compress(TEXT) + b"\x00",
        b"",
        b"\x1f\x8b",
        gzip.compress(TEXT)[2:],
    ):
        with pytest.raises(CorruptDataError):
            gzip_members.decompress_by(loaded, bad, MAX_BYTES)


def test_zstd_frames_are_read_with_and_without_their_size() -> None:
    frames = zstd_without_size(TEXT) + compress(Codec.ZSTD, b"and more") + zstd_without_size(b"")

    assert decompress(Codec.ZSTD, frames, MAX_BYTES) == TEXT + b"and more"


def test_zstd_steps_over_skippable_frames() -> None:
    skippable = b"\x5a\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"

    assert decompress(Codec.ZSTD, skippable + zstd_without_size(TEXT) + skippable, MAX_BYTES) == TEXT
    with pytest.raises(CorruptDataError, match="cut off"):
        decompress(Codec.ZSTD, skippable[:-1], MAX_BYTES)


def test_zstd_with_a_checksum_is_read_and_held_to_it() -> None:
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)

    assert decompress(Codec.ZSTD, frame, MAX_BYTES) == TEXT
    with pytest.raises(CorruptDataError, match="zstd data is damaged"):
        decompress(Codec.ZSTD, frame[:-1] + bytes([frame[-1] ^ 1]), MAX_BYTES)


@pytest.mark.parametrize("size", [False, True])
@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("block", [False, True])
def test_lz4_is_read_with_every_flag_that_clients_set(size: bool, content: bool, block: bool) -> None:
    assert decompress(Codec.LZ4, lz4_frame(size=size, content=content, block=block), MAX_BYTES) == TEXT


def test_lz4_with_linked_blocks_is_refused_as_kafka_refuses_it() -> None:
    with pytest.raises(CorruptDataError, match="depend on each other"):
        decompress(Codec.LZ4, lz4_frame(linked=True), MAX_BYTES)


def test_a_second_lz4_frame_is_left_over() -> None:
    with pytest.raises(CorruptDataError, match="bytes follow its frame"):
        decompress(Codec.LZ4, lz4_frame() + lz4_frame(), MAX_BYTES)


@pytest.mark.parametrize("codec", PACKED)
def test_data_cut_off_anywhere_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT[:2_000])
    whole_blocks = {len(XERIAL_HEADER)} if codec is Codec.SNAPPY else set[int]()
    for kept in range(len(packed)):
        if kept in whole_blocks:
            continue  # A stream of no blocks is whole.
        with pytest.raises(CorruptDataError, match=codec.name.lower()):
            decompress(codec, packed[:kept], MAX_BYTES)


@pytest.mark.parametrize("codec", PACKED)
def test_a_byte_left_over_is_refused(codec: Codec) -> None:
    for trailing in (b"\x00", b"x" * 9):
        with pytest.raises(CorruptDataError, match=codec.name.lower()):
            decompress(codec, compress(codec, TEXT) + trailing, MAX_BYTES)


@pytest.mark.parametrize("codec", Codec)
def test_the_bound_is_met_to_the_byte(codec: Codec) -> None:
    for data in (TEXT, bytes(400_000)):
        packed = compress(codec, data)
        assert decompress(codec, packed, len(data)) == data
        with pytest.raises(CorruptDataError, match=f"more than {len(data) - 1}"):
            decompress(codec, packed, len(data) - 1)


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1])
def test_a_snappy_chunk_of_impossible_length_is_refused_unread(length: int) -> None:
    chunk = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptDataError, match=f"a block of {length} bytes"):
        decompress(Codec.SNAPPY, XERIAL_HEADER + chunk + b"\x00" * 100, MAX_BYTES)


def test_a_snappy_block_may_not_claim_more_than_its_bytes_can_hold() -> None:
    block = b"\x80\x80\x40" + b"\x00" * 7  # 1 MiB out of ten bytes
    with pytest.raises(CorruptDataError, match="10 bytes claim to unpack to 1048576"):
        decompress(Codec.SNAPPY, block, MAX_BYTES)


def test_a_zstd_frame_may_not_claim_more_than_its_blocks_can_hold() -> None:
    honest = compress(Codec.ZSTD, TEXT)
    assert honest[4] >> 6 == 2  # the size has four bytes, behind the window's one
    liar = honest[:5] + (1_000_000).to_bytes(4, "little") + honest[9:]
    with pytest.raises(CorruptDataError, match="zstd"):
        decompress(Codec.ZSTD, liar, MAX_BYTES)


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_a_codec_that_does_not_exist_is_refused(codec: int) -> None:
    with pytest.raises(CorruptDataError, match=f"codec {codec} does not exist"):
        decompress(codec, b"", MAX_BYTES)
    with pytest.raises(ValueError, match=f"codec {codec} does not exist"):
        compress(codec, b"")
