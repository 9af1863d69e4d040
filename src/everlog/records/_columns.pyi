from everlog.ports.files import Buffer
from everlog.records.column_buffers import BinarySource, HeaderSource, NumberSource, Span

_Binary = tuple[Buffer, Buffer, Buffer | None, int]

Found = tuple[
    int,
    Buffer,
    Buffer,
    Buffer | None,
    int,
    Buffer,
    Buffer,
    Buffer,
    Buffer,
    _Binary,
    _Binary,
    Buffer,
    int,
    _Binary,
    _Binary,
    bool,
]
"""The fields of Columns and whether all names are UTF-8."""

def decode_columns(spans: list[Span], owners: list[tuple[Buffer, int]] = ..., /) -> Found | int:
    """Return what was found, or the number of the first span with a bad batch.

    With owners, the buffer that each span lies in and its number, the offsets of the values are views.
    """

def encode_rows(
    rows: int,
    key: BinarySource | None,
    value: BinarySource | None,
    headers: HeaderSource | None,
    timestamps: NumberSource | None,
    now: int,
    order: Buffer | None,
    first: int,
    stop: int,
    max_bytes: int,
    room: int,
    /,
) -> tuple[bytearray, int, int, int]:
    """Return the fields of EncodedRows."""

def find_run(data: Buffer, start: int, max_bytes: int, /) -> tuple[int, int, int, int, int] | None:
    """Where a run begins and ends, how many batches it has, and the next offset and the epoch of the last."""

def join_checksums(first: int, second: int, second_bytes: int, /) -> int:
    """Return the checksum of two pieces of data, one behind the other."""

def route_rows(
    rows: int,
    key: BinarySource | None,
    given: NumberSource | None,
    partition_count: int,
    keyless: bytes,
    run_rows: int,
    run_at: int,
    /,
) -> tuple[bytearray, tuple[int, ...], int]:
    """Return the fields of Routed; `keyless` has the partitions in 32 bits."""

def run_is_whole(data: Buffer, /) -> bool:
    """Return whether the checksums of all batches hold."""
