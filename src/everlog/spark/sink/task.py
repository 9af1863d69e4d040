"""One task of a write: rows in, a transaction out that is delivered and left open for the driver (D2)."""

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from everlog.client.core.errors import TransactionFailed, Unsendable
from everlog.client.core.producer.delivery import BulkDelivery
from everlog.client.core.txn.prepared import PreparedTransaction
from everlog.client.sync.producer import Producer
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.spark.sink.decisions import decided_batch, is_announced
from everlog.spark.sink.errors import SinkFailed
from everlog.spark.sink.options import Guarantee, SinkOptions
from everlog.spark.sink.producers import POOL, BatchPlace, kept_admin
from everlog.spark.sink.routing import ArrowBatch, parted_by_topic, with_values
from everlog.spark.sink.steps import reached


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What a task has to tell the driver."""

    place: BatchPlace
    transaction: PreparedTransaction | None = None
    """None if there was no row, or nothing to be ended."""
    skipped: bool = False
    """Whether it wrote nothing because the batch is decided already."""
    rows: int = 0


_QUICK_S = 0.1
"""A first attempt that is younger has no second one beside it (`spark.speculation.minTaskRuntime`)."""
_runs: dict[tuple[str, str], int] = {}
"""For each run of a query the first batch that was seen of it. Only that one may have been decided before."""


def write_rows(
    options: SinkOptions, place: BatchPlace, columns: Sequence[str], batches: Iterable[ArrowBatch]
) -> TaskOutcome:
    """Write the rows of a task. EverlogError, in one line, if they cannot be written."""
    began = time.monotonic()
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return TaskOutcome(place)
    if options.guarantee is Guarantee.AT_LEAST_ONCE:
        return _write_plainly(options, place, columns, _chain(first, filled))
    if _is_decided(options, place):
        for _ in filled:  # Spark's process is of no more use if a part of the rows is not read.
            pass
        return TaskOutcome(place, skipped=True)
    producer = POOL.lend(options, place)
    try:
        with _told_plainly():
            producer.begin_transaction()
            reached("task-begun")
            rows, _ = _send(producer, options, columns, _chain(first, filled))
            reached("task-sent")
            transaction = producer.prepare_transaction()
    except BaseException:
        POOL.drop(producer)
        raise
    assert transaction is not None
    reached("task-prepared")
    if (not place.named or time.monotonic() - began > _QUICK_S) and _is_over(options, place):
        # Another attempt has won, and the driver had looked for what is open before this was. Nobody else
        # would end it before its time-out, and readers would wait for that.
        kept_admin(options).abort_prepared_transactions([transaction])
        POOL.drop(producer)
        return TaskOutcome(place, skipped=True)
    POOL.give_back(producer, options, place)
    return TaskOutcome(place, transaction, rows=rows)


def _write_plainly(
    options: SinkOptions, place: BatchPlace, columns: Sequence[str], batches: Iterable[ArrowBatch]
) -> TaskOutcome:
    producer = POOL.plain(options)
    try:
        with _told_plainly():
            rows, deliveries = _send(producer, options, columns, batches)
            producer.flush()
            for delivery in deliveries:
                delivery.result()
    except BaseException:
        POOL.drop_plain(options)
        raise
    return TaskOutcome(place, rows=rows)


def _send(
    producer: Producer, options: SinkOptions, columns: Sequence[str], batches: Iterable[ArrowBatch]
) -> tuple[int, list[BulkDelivery]]:
    rows, waiting = 0, list[BulkDelivery]()
    for batch in batches:
        rows += batch.num_rows
        for topic, records in parted_by_topic(with_values(batch, options), options.topic, columns):
            waiting.append(producer.send_arrow(topic, records))
        # What is delivered is let go: the memory of a task does not grow with its rows.
        still = [one for one in waiting if not one.done()]
        for one in waiting:
            if one.done():
                one.result()
        waiting = still
    return rows, waiting


def _chain(first: ArrowBatch, rest: Iterator[ArrowBatch]) -> Iterator[ArrowBatch]:
    yield first
    yield from rest


def _is_decided(options: SinkOptions, place: BatchPlace) -> bool:
    """Whether a batch counts already; asked only where it can: of the first batch of a run."""
    first = _runs.setdefault((place.query, place.run), place.batch)
    return place.batch <= first and _is_over(options, place)


def _is_over(options: SinkOptions, place: BatchPlace) -> bool:
    if not place.named:
        return is_announced(kept_admin(options), place.query)
    decided = decided_batch(kept_admin(options), place.query)
    return decided is not None and decided >= place.batch


@contextmanager
def _told_plainly() -> Generator[None]:
    """Raise errors as a user of Spark should read them."""
    try:
        yield
    except TransactionFailed as error:
        raise _explained(error.__cause__ if isinstance(error.__cause__, EverlogError) else error) from None
    except Unsendable as error:
        raise SinkFailed(f"rows cannot be written: {error}") from None
    except Refused as error:
        raise _explained(error) from None
    except (TypeError, ValueError) as error:
        raise SinkFailed(f"rows cannot be written: {error}") from None


def _explained(error: EverlogError) -> EverlogError:
    if isinstance(error, Refused) and error.code is ErrorCode.MESSAGE_TOO_LARGE:
        return SinkFailed(f"{error}; kafka.max.request.size and the topic's max.message.bytes set the limit")
    return error
