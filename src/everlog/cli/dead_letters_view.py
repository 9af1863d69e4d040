"""`everlog dead-letters list`, and which letters commands are about."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Block, Line, Report, Table
from everlog.cli.ranges import RangeReader, open_reader, places_of, resolve_ranges
from everlog.cli.shapes import bytes_shape, counted, time_text
from everlog.client.core.consumer.offset_spec import OffsetRange, parse_offset_spec
from everlog.client.core.dead_letters import DeadLetter, read_dead_letter
from everlog.model.errors import ConfigError
from everlog.model.ids import Timestamp
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord

Function = TypeVar("Function", bound=Callable[..., Any])

SHOWN_LENGTH = 60

EXAMPLES = """
$ everlog dead-letters list orders.dlq
$ everlog dead-letters list orders.dlq --error KeyError --group billing
$ everlog dead-letters list orders.dlq --offset @-1h --json | jq '.letters[].message'
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which dead letters are meant; no names are all of them."""

    partitions: Sequence[int]
    offset: str
    errors: Sequence[str] = ()
    origins: Sequence[str] = ()
    groups: Sequence[str] = ()

    def has(self, letter: DeadLetter) -> bool:
        """Whether a letter is meant. An error goes by its full name or the last part of it."""
        short = letter.error.rpartition(".")[2]
        return (
            (not self.errors or letter.error in self.errors or short in self.errors)
            and (not self.origins or letter.topic in self.origins)
            and (not self.groups or letter.group in self.groups)
        )


def choice_options(function: Function) -> Function:
    """Add the options that choose among dead letters; they arrive as those of `Choice`."""
    for option in reversed(
        [
            click.option(
                "-p",
                "--partition",
                "partitions",
                type=click.IntRange(min=0),
                multiple=True,
                metavar="N",
                help="Only this one; repeatable.",
            ),
            click.option(
                "-o",
                "--offset",
                default="start",
                show_default=True,
                metavar="SPEC",
                help="Where to begin, and to end: as for `everlog consume`.",
            ),
            click.option(
                "--error", "errors", multiple=True, metavar="NAME", help="Only of this error; repeatable."
            ),
            click.option(
                "--origin",
                "origins",
                multiple=True,
                metavar="TOPIC",
                help="Only from this topic; repeatable.",
            ),
            click.option(
                "--group", "groups", multiple=True, metavar="GROUP", help="Only of this group; repeatable."
            ),
        ]
    ):
        function = option(function)
    return function


def ranges_chosen(
    bootstrap: str, timeout: float, topic: str, choice: Choice
) -> dict[TopicPartition, OffsetRange]:
    """The range of each partition to look at; none goes beyond what is there now."""
    try:
        spec = parse_offset_spec(choice.offset, Timestamp(int(time.time() * 1000)))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    with open_admin(bootstrap, timeout) as admin:
        places = places_of(admin, topic, choice.partitions)
        return resolve_ranges(admin, places, spec, read_committed=True, stop_at_end=True)


def read_letters(
    bootstrap: str, timeout: float, ranges: Mapping[TopicPartition, OffsetRange]
) -> Iterator[list[tuple[ConsumerRecord, DeadLetter | None]]]:
    """All records of the ranges with what they tell as dead letters; None for those that are none."""
    with open_reader(bootstrap, timeout, read_committed=True) as consumer:
        reader = RangeReader(consumer, ranges)
        while not reader.finished:
            yield [(record, read_dead_letter(record)) for record in reader.poll()]


@command("list", examples=EXAMPLES)
@click.argument("topic", shell_complete=complete_topics)
@choice_options
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    metavar="N",
    help="At most so many.",
)
@bootstrap_option
def list_letters(
    *,
    topic: str,
    partitions: tuple[int, ...],
    offset: str,
    errors: tuple[str, ...],
    origins: tuple[str, ...],
    groups: tuple[str, ...],
    count: int,
    bootstrap: str,
    timeout: float,
) -> Report:
    """List the dead letters in a topic: where each came from, what went wrong, and how often it was tried."""
    choice = Choice(partitions, offset, errors, origins, groups)
    ranges = ranges_chosen(bootstrap, timeout, topic, choice)
    found: list[DeadLetter] = []
    others = 0
    for lot in read_letters(bootstrap, timeout, ranges):
        found += [letter for _, letter in lot if letter is not None and choice.has(letter)]
        others += sum(letter is None for _, letter in lot)
        if len(found) > count:
            break
    more, found = len(found) > count, found[:count]
    rows = [
        (
            letter.record.partition,
            letter.record.offset,
            None if letter.at is None else time_text(letter.at),
            _origin(letter),
            letter.tries,
            letter.error.rpartition(".")[2],
            _shortened(letter.message),
        )
        for letter in found
    ]
    header = ("PARTITION", "OFFSET", "AT", "FROM", "TRIES", "ERROR", "MESSAGE")
    blocks: list[Block] = [Table(header, rows) if rows else Line("no dead letters")]
    if others:
        blocks.append(Line(f"{counted(others, 'record')} without a dead letter's headers"))
    if more:
        blocks.append(Line("there are more: --count shows them"))
    data = {
        "topic": topic,
        "letters": [letter_shape(letter) for letter in found],
        "others": others,
        "more": more,
    }
    return Report(data, blocks)


def letter_shape(letter: DeadLetter) -> dict[str, object]:
    """A dead letter as JSON shows it."""
    return {
        "partition": letter.record.partition,
        "offset": letter.record.offset,
        "at": letter.at,
        "group": letter.group,
        "origin": {
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": letter.offset,
            "timestamp": letter.timestamp,
        },
        "error": letter.error,
        "message": letter.message,
        "tries": letter.tries,
        "key": bytes_shape(letter.record.key),
        "value": bytes_shape(letter.record.value),
    }


def _origin(letter: DeadLetter) -> str:
    if letter.partition is None or letter.offset is None:
        return letter.topic
    return f"{letter.topic}-{letter.partition}@{letter.offset}"


def _shortened(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= SHOWN_LENGTH else f"{line[: SHOWN_LENGTH - 1]}…"
