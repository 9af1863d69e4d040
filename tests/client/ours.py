"""Our clients behind the face of the conformance tests, in each of their ways."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal

import everlog.aio
from everlog import Consumer, Producer
from tests.conformance.clients.reading import ReadBack
from tests.conformance.scenarios import How, Read, Record, Traits

pa: Any = import_module("pyarrow")

Way = Literal["one by one", "asyncio", "columns"]
WAYS: tuple[Way, ...] = ("one by one", "asyncio", "columns")
TRAITS = Traits()
PATIENCE_S = 60.0


def produce(way: Way, bootstrap: str, topic: str, records: Sequence[Record], how: How) -> None:
    """Write the records in order, and wait for them."""
    options: dict[str, Any] = {
        "compression_type": how.codec,
        "acks": "all" if how.acks == -1 else how.acks,
        "enable_idempotence": how.idempotent,
    }
    match way:
        case "one by one":
            with Producer(bootstrap, **options) as producer:
                told = [producer.send(topic, **_arguments(record)) for record in records]
            _check_told(records, [delivery.result(0).offset for delivery in told], how)
        case "asyncio":
            asyncio.run(_produce(bootstrap, topic, records, how, options))
        case "columns":
            with Producer(bootstrap, **options) as producer:
                producer.send_arrow(topic, _table(records)).result(PATIENCE_S)


def consume(way: Way, bootstrap: str, topic: str, ends: Mapping[int, int], isolation: str) -> list[Read]:
    """Read partitions by `assign`, from the start up to the end offsets given."""
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": isolation}
    back = ReadBack(ends, PATIENCE_S)
    if way == "asyncio":
        asyncio.run(_consume(bootstrap, topic, back, ends, options))
        return back.records
    with Consumer(bootstrap, **options) as consumer:
        consumer.assign([(topic, partition) for partition in ends])
        while not back.complete():
            found = consumer.poll(1.0) if way == "one by one" else _rows(consumer.poll_arrow(1.0))
            _keep(back, found)
    return back.records


async def _produce(
    bootstrap: str, topic: str, records: Sequence[Record], how: How, options: dict[str, Any]
) -> None:
    async with everlog.aio.Producer(bootstrap, **options) as producer:
        told = [await producer.send(topic, **_arguments(record)) for record in records]
        _check_told(records, [(await delivery).offset for delivery in told], how)


async def _consume(
    bootstrap: str, topic: str, back: ReadBack, ends: Mapping[int, int], options: dict[str, Any]
) -> None:
    async with everlog.aio.Consumer(bootstrap, **options) as consumer:
        await consumer.assign([(topic, partition) for partition in ends])
        while not back.complete():
            _keep(back, await consumer.poll(1.0))


def _keep(back: ReadBack, found: Iterable[Any]) -> None:
    for one in found:
        back.add(
            Read(one.partition, one.offset, one.key, one.value, tuple(map(tuple, one.headers)), one.timestamp)
        )


def _arguments(record: Record) -> dict[str, Any]:
    return {
        "value": record.value,
        "key": record.key,
        "partition": record.partition,
        "headers": record.headers,
        "timestamp": record.timestamp or None,
    }


def _check_told(records: Sequence[Record], offsets: Sequence[int], how: How) -> None:
    """The offsets that we were told count from 0 in each partition."""
    if how.acks == 0:
        return
    due: dict[int, int] = {}
    for record, offset in zip(records, offsets, strict=True):
        assert offset == due.get(record.partition, 0), (record.partition, offset)
        due[record.partition] = offset + 1


def _table(records: Sequence[Record]) -> Any:
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    now_ms = time.time_ns() // 1_000_000
    return pa.table(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "headers": pa.array(
                [[{"key": key, "value": value} for key, value in record.headers] for record in records],
                pa.list_(header),
            ),
            "timestamp": pa.array(
                [record.timestamp or now_ms for record in records], pa.timestamp("ms", "UTC")
            ),
            "partition": pa.array([record.partition for record in records], pa.int32()),
        }
    )


class _Row:
    """One row of columns, with the names of a ConsumerRecord."""

    def __init__(self, row: dict[str, Any], stamp: int) -> None:
        self.partition: int = row["partition"]
        self.offset: int = row["offset"]
        self.key: bytes | None = row["key"]
        self.value: bytes | None = row["value"]
        self.headers = [(header["key"], header["value"]) for header in row["headers"]]
        self.timestamp = stamp


def _rows(batch: Any) -> list[_Row]:
    stamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
    return [_Row(row, stamp) for row, stamp in zip(batch.to_pylist(), stamps, strict=True)]
