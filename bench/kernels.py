"""How many records a second the kernels take in, compiled and in plain Python: `python -m bench.kernels`.

CPU time of this process, the best of five rounds, over batches of 1,000 records of 100 bytes.
"""

import time
from collections.abc import Callable
from functools import partial

from everlog.ports.files import Buffer
from everlog.records import columns, columns_plain, rows, rows_plain
from everlog.records.batch import batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.column_buffers import LARGEST_INT64, BinarySource, Keyless, RowSource, Span
from everlog.records.columns import columns_are_compiled
from everlog.records.crc import folding, packaged
from everlog.records.reader import read_records
from everlog.records.rows import rows_are_compiled
from everlog.records.skim import Skim, kernel_is_loaded, skim_compiled, skim_plainly

COUNT = 1_000
ROUNDS = 5
SECONDS_A_ROUND = 0.3

RECORDS = [NewRecord(b"key-%06d" % i, b"v" * 90, (), 1_700_000_000_000 + i) for i in range(COUNT)]
BATCH = batch_at(build_batch(RECORDS))


def millions_a_second(work: Callable[[], object]) -> float:
    """Return how many million records `work`, which handles one batch, takes in a second at its best."""
    best = 0.0
    for _ in range(ROUNDS):
        calls = 0
        start = time.process_time()
        while time.process_time() - start < SECONDS_A_ROUND:
            work()
            calls += 1
        best = max(best, calls * COUNT / (time.process_time() - start) / 1e6)
    return best


def skimming(skim: Callable[[Buffer, int, int], Skim]) -> float:
    """Return the rate of one of the skims."""
    records = bytes(BATCH.records)
    return millions_a_second(lambda: skim(records, COUNT, BATCH.base_timestamp))


def print_checksums() -> None:
    """Print the rates of both checksums over 64 KiB, in GB/s."""
    data = bytes(65536)
    for name, checksum in (("package", packaged()), ("ours", folding())):
        if checksum is None:
            print("checksum, ours        not built, or not for this processor")
            return
        batches = millions_a_second(partial(checksum, data)) * 1e6 / COUNT
        print(f"checksum, {name:12} {batches * len(data) / 1e9:8.1f} GB/s")


def print_columns() -> None:
    """Print the rates of the columns, of which one call handles 100 batches where it is compiled."""
    found = columns_plain.decode_columns([Span(BATCH.raw, None, 0, LARGEST_INT64, 0, 0)])
    key, value = (
        BinarySource(column.offsets, column.data, None, 0, wide=False) for column in (found.key, found.value)
    )
    source = RowSource(COUNT, key, value, None, None, BATCH.base_timestamp)
    keyless = Keyless((0, 1, 2), COUNT)
    for twin, name, batches in ((columns_plain, "plain Python", 1), (columns, "compiled", 100)):
        if twin is columns and not columns_are_compiled():
            print("columns, compiled     not built, or EVERLOG_PURE_PYTHON is set")
            return
        spans = [Span(BATCH.raw, None, 0, LARGEST_INT64, 0, 0)] * batches
        decode, encode, route = twin.decode_columns, twin.encode_rows, twin.route_rows
        rates = {
            "batches to columns": batches * millions_a_second(partial(decode, spans)),
            "columns to a batch": millions_a_second(partial(encode, source, None, 0, COUNT, 1 << 20)),
            "keys to partitions": millions_a_second(partial(route, COUNT, key, None, 6, keyless)),
        }
        for what, rate in rates.items():
            print(f"{what}, {name:12} {rate:8.2f} M records/s")


def print_rows() -> None:
    """Print the rates of records one by one."""
    for twin, name in ((rows_plain, "plain Python"), (rows, "compiled")):
        if twin is rows and not rows_are_compiled():
            print("rows, compiled        not built, or EVERLOG_PURE_PYTHON is set")
            return

        def encode(new: Callable[[], rows_plain.BatchBuffer] = twin.BatchBuffer) -> None:
            buffer = new()
            for record in RECORDS:
                buffer.append(*record)
            buffer.seal()

        def read(read_rows: Callable[..., None] = twin.read_rows) -> None:
            read_rows(BATCH, "orders", 0, 0, None, [])

        print(f"rows to a batch, {name:12} {millions_a_second(encode):8.2f} M records/s")
        print(f"a batch to rows, {name:12} {millions_a_second(read):8.2f} M records/s")


def main() -> None:
    """Print a line for each kernel and its twin."""
    plain = skimming(skim_plainly)
    print(f"skim, plain Python    {plain:8.2f} M records/s")
    if kernel_is_loaded():
        compiled = skimming(skim_compiled)
        print(f"skim, compiled        {compiled:8.2f} M records/s  ({compiled / plain:.0f} times)")
    else:
        print("skim, compiled        not built, or EVERLOG_PURE_PYTHON is set")
    print(f"build, plain Python   {millions_a_second(lambda: build_batch(RECORDS)):8.2f} M records/s")
    print(f"read, plain Python    {millions_a_second(lambda: read_records(BATCH)):8.2f} M records/s")
    print_rows()
    print_checksums()
    print_columns()


if __name__ == "__main__":
    main()
