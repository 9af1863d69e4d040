"""`everlog txn list|describe|find-hanging`."""

import time

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics, complete_transactional_ids
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Block, Fields, Line, Report, Table
from everlog.cli.progress import Progress
from everlog.cli.shapes import error_shape, span_text, time_text
from everlog.client.core.admin.place_spec import parse_places
from everlog.client.core.admin.transactions import STATES, ActiveProducer
from everlog.client.core.consumer.offset_spec import duration_from_text
from everlog.client.sync.admin import Admin
from everlog.model.errors import ConfigError, Refused
from everlog.model.topics import TopicPartition

LIST_EXAMPLES = """
$ everlog txn list
$ everlog txn list --state Ongoing --running-longer-than 5m
$ everlog txn list --json
"""

PARTITIONS_A_REQUEST = 500


def span_ms(text: str, option: str) -> int:
    """Read the span of time that an option has; anything else is wrong usage."""
    found = duration_from_text(text)
    if found is None:
        raise click.UsageError(f"{option} {text!r} cannot be read: expected a span such as 1h30m, 5m or 90s")
    return found


@command("list", examples=LIST_EXAMPLES)
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only those in this state; repeatable.",
)
@click.option("--running-longer-than", metavar="SPAN", help="Only those open for longer, such as 5m.")
@bootstrap_option
def list_transactions(
    *, states: tuple[str, ...], running_longer_than: str | None, bootstrap: str, timeout: float
) -> Report:
    """List the transactional ids that the brokers of a cluster look after."""
    longer_than_ms: int | None = None
    if running_longer_than is not None:
        longer_than_ms = span_ms(running_longer_than, "--running-longer-than")
    with open_admin(bootstrap, timeout) as admin:
        listed = admin.list_transactions(states=states, longer_than_ms=longer_than_ms)
    rows = [(entry.transactional_id, entry.state, entry.producer_id, entry.coordinator) for entry in listed]
    shapes = [
        {
            "transactional_id": entry.transactional_id,
            "state": entry.state,
            "producer_id": entry.producer_id,
            "coordinator": entry.coordinator,
        }
        for entry in listed
    ]
    header = ("TRANSACTIONAL ID", "STATE", "PRODUCER", "COORDINATOR")
    return Report({"transactions": shapes}, [Table(header, rows) if rows else Line("no transactions")])


DESCRIBE_EXAMPLES = """
$ everlog txn describe orders-writer-1
$ everlog txn describe orders-writer-1 --json | jq .running_seconds
"""


@command("describe", examples=DESCRIBE_EXAMPLES)
@click.argument("transactional_id", shell_complete=complete_transactional_ids)
@bootstrap_option
def describe(*, transactional_id: str, bootstrap: str, timeout: float) -> Report:
    """Show the state of a transactional id: its producer, and the transaction it has open."""
    with open_admin(bootstrap, timeout) as admin:
        try:
            found = admin.describe_transaction(transactional_id)
        except Refused as error:
            nothing = {"transactional_id": transactional_id, "error": error_shape(error)}
            return Report(nothing, errors=[str(error)])
    coordinator = found.coordinator
    running_ms = None if found.started_at is None else max(0, int(time.time() * 1000) - found.started_at)
    data = {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "started_at": found.started_at,
        "running_seconds": None if running_ms is None else running_ms / 1000,
        "coordinator": {"id": coordinator.node_id, "host": coordinator.host, "port": coordinator.port},
        "partitions": [{"topic": place.topic, "partition": place.partition} for place in found.partitions],
        "error": None,
    }
    facts = Fields(
        [
            ("transactional id", found.transactional_id),
            ("state", found.state),
            ("producer", f"{found.producer_id}, epoch {found.producer_epoch}"),
            ("coordinator", f"{coordinator.node_id} ({coordinator.address})"),
            ("timeout", span_text(found.timeout_ms)),
            ("started", None if found.started_at is None else time_text(found.started_at)),
            ("running for", None if running_ms is None else span_text(running_ms)),
        ]
    )
    blocks: list[Block] = [facts]
    if found.partitions:
        blocks.append(Table(("TOPIC", "PARTITION"), [tuple(place) for place in found.partitions]))
    return Report(data, blocks)


HANGING_EXAMPLES = """
$ everlog txn find-hanging
$ everlog txn find-hanging --topic orders --topic audit:0,1
$ everlog txn find-hanging --max-transaction-timeout 1h --json
"""


@command("find-hanging", examples=HANGING_EXAMPLES)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,…]",
    shell_complete=complete_topics,
    help="Only this topic, or some of its partitions; repeatable.  [default: all topics]",
)
@click.option(
    "--max-transaction-timeout",
    "longest",
    default="15m",
    show_default=True,
    metavar="SPAN",
    help="The broker's transaction.max.timeout.ms: none that is younger is taken for hanging.",
)
@bootstrap_option
def find_hanging(*, topics: tuple[str, ...], longest: str, bootstrap: str, timeout: float) -> Report:
    """Find transactions that are open in a partition and that no coordinator will ever end.

    They keep readers of committed records from going on, and `txn abort` with their topic, partition and
    start offset ends them.
    """
    longest_ms = span_ms(longest, "--max-transaction-timeout")
    try:
        wanted = parse_places(topics)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    with open_admin(bootstrap, timeout) as admin:
        places = _places(admin, wanted)
        open_ones: list[ActiveProducer] = []
        with Progress("asking leaders", len(places), "partitions") as progress:
            for at in range(0, len(places), PARTITIONS_A_REQUEST):
                lot = places[at : at + PARTITIONS_A_REQUEST]
                for producers in admin.describe_producers(lot).values():
                    open_ones.extend(entry for entry in producers if entry.txn_start is not None)
                progress.step(len(lot))
        found = admin.find_hanging_transactions(open_ones, longest_ms)
    rows = [
        (
            entry.place.topic,
            entry.place.partition,
            entry.txn_start,
            entry.producer_id,
            entry.producer_epoch,
            time_text(entry.last_timestamp),
        )
        for entry in found
    ]
    shapes = [
        {
            "topic": entry.place.topic,
            "partition": entry.place.partition,
            "start_offset": entry.txn_start,
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "last_timestamp": entry.last_timestamp,
        }
        for entry in found
    ]
    header = ("TOPIC", "PARTITION", "START", "PRODUCER", "EPOCH", "LAST WRITTEN")
    text: Block = Table(header, rows) if rows else Line("no hanging transactions")
    return Report({"partitions_checked": len(places), "hanging": shapes}, [text])


def _places(admin: Admin, wanted: dict[str, list[int] | None]) -> list[TopicPartition]:
    """The partitions to look at: those named, or all that have a leader."""
    described = admin.describe_topics(sorted(wanted) or None)
    return [
        TopicPartition(name, index)
        for name, topic in described.items()
        for index in (wanted.get(name) or sorted(topic.partitions))
        if wanted or topic.partitions[index].leader >= 0
    ]
