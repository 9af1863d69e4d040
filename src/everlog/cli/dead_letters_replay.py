"""`everlog dead-letters replay`."""

from collections import Counter

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.connect import open_producer
from everlog.cli.dead_letters_view import Choice, choice_options, ranges_chosen, read_letters
from everlog.cli.options import bootstrap_option, dry_run_option
from everlog.cli.output import Block, Line, Report, Table
from everlog.cli.progress import Progress
from everlog.cli.shapes import counted
from everlog.client.core.dead_letters import DeadLetter
from everlog.client.core.producer.delivery import Delivery
from everlog.client.sync.producer import Producer
from everlog.model.topics import TopicPartition

EXAMPLES = """
$ everlog dead-letters replay orders.dlq --dry-run              # what would go where
$ everlog dead-letters replay orders.dlq                        # all of it, to where it came from
$ everlog dead-letters replay orders.dlq --error KeyError -o @-1h
$ everlog dead-letters replay orders.dlq -p 0 -o 120:130        # ten of them
$ everlog dead-letters replay orders.dlq --to orders.retry
"""


@command("replay", examples=EXAMPLES)
@click.argument("topic", shell_complete=complete_topics)
@choice_options
@click.option("-n", "--count", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@click.option("--to", metavar="TOPIC", shell_complete=complete_topics, help="Send them here instead.")
@click.option("--keep-timestamps", is_flag=True, help="With the time they had, which retention goes by.")
@dry_run_option
@bootstrap_option
def replay(
    *,
    topic: str,
    partitions: tuple[int, ...],
    offset: str,
    errors: tuple[str, ...],
    origins: tuple[str, ...],
    groups: tuple[str, ...],
    count: int | None,
    to: str | None,
    keep_timestamps: bool,
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Send dead letters back to the topics and partitions that they came from, up to what is the end now.

    They get the headers back that they had, and keep the count of tries, so that a record that fails again
    tells how often it did in all. They stay in the dead-letter topic: what was sent, and from which offset on
    nothing was, is in the report.
    """
    choice = Choice(partitions, offset, errors, origins, groups)
    ranges = ranges_chosen(bootstrap, timeout, topic, choice)
    after: dict[TopicPartition, int] = {place: wanted.start for place, wanted in ranges.items()}
    total = sum(max(0, (wanted.end or wanted.start) - wanted.start) for wanted in ranges.values())
    sent: Counter[str] = Counter()
    others = 0
    with (
        Progress(f"replay {topic}", total, "records") as progress,
        open_producer(bootstrap, timeout) as producer,
    ):
        for lot in read_letters(bootstrap, timeout, ranges):
            deliveries: list[Delivery] = []
            for record, letter in lot:
                if count is not None and sent.total() >= count:
                    break
                after[TopicPartition(record.topic, record.partition)] = record.offset + 1
                others += letter is None
                if letter is None or not choice.has(letter):
                    continue
                target = to or letter.topic
                sent[target] += 1
                if not dry_run:
                    deliveries.append(_send(producer, target, letter, keep_timestamps, same=to is None))
            producer.flush()
            for delivery in deliveries:
                delivery.result()
            progress.step(len(lot))
            if count is not None and sent.total() >= count:
                break
    return _report(topic, sent, others, after, dry_run=dry_run)


def _send(
    producer: Producer, target: str, letter: DeadLetter, keep_timestamps: bool, *, same: bool
) -> Delivery:
    record = letter.record
    return producer.send(
        target,
        record.value,
        record.key,
        partition=letter.partition if same else None,
        headers=letter.replay_headers,
        timestamp=letter.timestamp if keep_timestamps else None,
    )


def _report(
    topic: str, sent: "Counter[str]", others: int, after: dict[TopicPartition, int], *, dry_run: bool
) -> Report:
    data = {
        "topic": topic,
        "dry_run": dry_run,
        "replayed": sent.total(),
        "topics": [{"topic": name, "records": records} for name, records in sorted(sent.items())],
        "others": others,
        "partitions": [
            {"partition": place.partition, "next_offset": offset} for place, offset in sorted(after.items())
        ],
    }
    did = "would send" if dry_run else "sent"
    blocks: list[Block] = [Line(f"{did} {counted(sent.total(), 'record')} back")]
    if sent:
        blocks.append(Table(("TO", "RECORDS"), sorted(sent.items())))
    if others:
        blocks.append(Line(f"{counted(others, 'record')} without a dead letter's headers were left out"))
    return Report(data, blocks)
