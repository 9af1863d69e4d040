"""The driver's side of a write: from what tasks have told to a batch that counts, or is aborted (D2)."""

from collections.abc import Callable, Sequence
from functools import cache

from everlog.spark.sink.deciding import Decider
from everlog.spark.sink.errors import SinkFailed
from everlog.spark.sink.options import Guarantee, SinkOptions
from everlog.spark.sink.producers import kept_admin
from everlog.spark.sink.progress import source_offsets
from everlog.spark.sink.protocol import abort_batch, commit_at_once, commit_batch
from everlog.spark.sink.steps import reached
from everlog.spark.sink.task import TaskOutcome

OpenDecider = Callable[[SinkOptions, str], Decider]


def commit_stream_batch(options: SinkOptions, outcomes: Sequence[TaskOutcome], batch: int) -> None:
    """Make a batch of a streaming query count, once, however often this is called."""
    reached("commit-called")
    if outcomes:
        _commit(options, _kept_decider, outcomes, batch, named=True)
    reached("commit-done")


def abort_stream_batch(options: SinkOptions, outcomes: Sequence[TaskOutcome], batch: int) -> None:
    """Abort what tasks of a failed batch have written, unless it was decided before it failed."""
    _abort(options, _kept_decider, outcomes, batch)


def commit_write(options: SinkOptions, outcomes: Sequence[TaskOutcome]) -> None:
    """Make a batch write count: once under its name and number, if it has a name."""
    if outcomes:
        _commit(options, Decider, outcomes, options.batch_id, named=options.write_id is not None)


def abort_write(options: SinkOptions, outcomes: Sequence[TaskOutcome]) -> None:
    """Abort what tasks of a failed batch write have written."""
    _abort(options, Decider, outcomes, options.batch_id)


def _commit(
    options: SinkOptions,
    open_decider: OpenDecider,
    outcomes: Sequence[TaskOutcome],
    batch: int,
    *,
    named: bool,
) -> None:
    if options.guarantee is Guarantee.AT_LEAST_ONCE:
        offsets = source_offsets(options, batch)
        if options.commit_group is not None and offsets:
            kept_admin(options).alter_group_offsets(options.commit_group, offsets)
        return
    strange = [one.place for one in outcomes if one.place.batch != batch]
    if strange:
        raise SinkFailed(f"the commit of batch {batch} was given what tasks wrote for {strange[0]}")
    written = [one.transaction for one in outcomes if one.transaction is not None]
    skipped = sum(one.skipped for one in outcomes)
    if not written and not skipped and options.commit_group is None:
        return
    with open_decider(options, outcomes[0].place.query) as decider:
        if named:
            decider.run(lambda: commit_batch(batch, written, skipped), lambda: source_offsets(options, batch))
        else:
            decider.run(lambda: commit_at_once(written, skipped))


def _abort(
    options: SinkOptions, open_decider: OpenDecider, outcomes: Sequence[TaskOutcome], batch: int
) -> None:
    written = [one.transaction for one in outcomes if one.transaction is not None]
    if written:
        with open_decider(options, outcomes[0].place.query) as decider:
            decider.run(lambda: abort_batch(batch, written))


# Kept in this process: Spark uses it again for the next batch.


@cache
def _kept_decider(options: SinkOptions, query: str) -> Decider:
    return Decider(options, query, keep=True)
