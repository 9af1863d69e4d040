"""`everlog txn abort`."""

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics, complete_transactional_ids
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option, confirm, dry_run_option, yes_option
from everlog.cli.output import Line, Report
from everlog.cli.shapes import error_shape
from everlog.client.core.admin.transactions import ONGOING, ActiveProducer
from everlog.client.core.errors import refusal
from everlog.client.sync.admin import Admin
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition

EXAMPLES = """
$ everlog txn abort orders-writer-1
$ everlog txn abort orders-writer-1 --dry-run
$ everlog txn abort --topic orders --partition 0 --start-offset 1200 --yes
"""


@command("abort", examples=EXAMPLES)
@click.argument("transactional_id", required=False, shell_complete=complete_transactional_ids)
@click.option("--topic", metavar="TOPIC", shell_complete=complete_topics, help="Where the transaction hangs.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="In which partition.")
@click.option(
    "--start-offset", type=click.IntRange(min=0), metavar="N", help="The offset of its first record there."
)
@yes_option
@dry_run_option
@bootstrap_option
def abort(
    *,
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    yes: bool,
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Abort a transaction: its records are never seen by readers of committed records.

    With a TRANSACTIONAL_ID its coordinator is asked for the next epoch of that id. That aborts what is open
    in all partitions, and fences the producer: it can write no more until it starts again. Use it for a
    producer that is stuck.

    With --topic, --partition and --start-offset an abort marker is written to that one partition, past
    the coordinator. Use it for a transaction that hangs (`txn find-hanging`): one that its coordinator has
    forgotten. Never use it for one that is alive, for that would be aborted in one partition and may yet be
    committed in the others.
    """
    place = _place(topic, partition, start_offset)
    if (transactional_id is None) == (place is None):
        raise click.UsageError(f"which transaction is not clear: expected TRANSACTIONAL_ID, or {_TOGETHER}")
    with open_admin(bootstrap, timeout) as admin:
        try:
            if transactional_id is not None:
                return _abort_id(admin, transactional_id, yes=yes, dry_run=dry_run)
            assert place is not None
            return _abort_at(admin, *place, yes=yes, dry_run=dry_run)
        except Refused as error:
            data: dict[str, object] = {
                "dry_run": dry_run,
                "transactional_id": transactional_id,
                "aborted": False,
                "error": error_shape(error),
            }
            return Report(data, errors=[str(error)])


_TOGETHER = "--topic, --partition and --start-offset together"


def _place(
    topic: str | None, partition: int | None, start_offset: int | None
) -> tuple[TopicPartition, int] | None:
    """The partition and the offset that the options name, or None without them; some alone are wrong."""
    if topic is not None and partition is not None and start_offset is not None:
        return TopicPartition(topic, partition), start_offset
    if topic is None and partition is None and start_offset is None:
        return None
    raise click.UsageError(f"where the transaction hangs is not clear: expected {_TOGETHER}")


def _abort_id(admin: Admin, transactional_id: str, *, yes: bool, dry_run: bool) -> Report:
    found = admin.describe_transaction(transactional_id)
    if found.state != ONGOING:
        raise refusal(
            ErrorCode.INVALID_TXN_STATE,
            f"its state is {found.state}, expected {ONGOING}: there is nothing to abort",
            f"transactional id {transactional_id!r}",
        )
    shape: dict[str, object] = {
        "dry_run": dry_run,
        "transactional_id": transactional_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "partitions": [{"topic": at.topic, "partition": at.partition} for at in found.partitions],
        "aborted": not dry_run,
        "error": None,
    }
    about = (
        f"the transaction of {transactional_id} in {', '.join(map(str, found.partitions)) or 'no partition'}"
    )
    if dry_run:
        return Report(shape, [Line(f"would abort {about}")])
    if not confirm(f"Abort {about} and fence its producer?", yes=yes):
        raise click.Abort
    now = admin.fence_producer(transactional_id)
    shape.update(producer_id=now.producer_id, producer_epoch=now.producer_epoch)
    fenced = f"producer {found.producer_id} is fenced below epoch {now.producer_epoch}"
    return Report(shape, [Line(f"aborted {about}; {fenced}")])


def _abort_at(admin: Admin, place: TopicPartition, start: int, *, yes: bool, dry_run: bool) -> Report:
    producer = _producer_at(admin, place, start)
    shape: dict[str, object] = {
        "dry_run": dry_run,
        "transactional_id": None,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "partitions": [{"topic": place.topic, "partition": place.partition}],
        "aborted": not dry_run,
        "error": None,
    }
    about = f"the transaction of producer {producer.producer_id} in {place} from offset {start}"
    if dry_run:
        return Report(shape, [Line(f"would abort {about}")])
    if not confirm(f"Abort {about}, past its coordinator?", yes=yes):
        raise click.Abort
    admin.abort_transaction(producer)
    return Report(shape, [Line(f"aborted {about}")])


def _producer_at(admin: Admin, place: TopicPartition, start: int) -> ActiveProducer:
    producers = admin.describe_producers([place])[place]
    for producer in producers:
        if producer.txn_start == start:
            return producer
    begun = sorted(producer.txn_start for producer in producers if producer.txn_start is not None)
    found = f"open ones start at {', '.join(map(str, begun))}" if begun else "none is open there"
    raise refusal(ErrorCode.INVALID_TXN_STATE, found, f"transaction in {place} from offset {start}")
