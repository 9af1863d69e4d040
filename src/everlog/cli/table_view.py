"""`everlog table list|describe`."""

import click

from everlog.cli.command import command
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Block, Line, Report, Table
from everlog.cli.shapes import counted, time_text
from everlog.cli.table_place import all_specs, find_spec, table_argument
from everlog.cli.table_shapes import (
    commit_shape,
    lag_of,
    offsets_text,
    spec_fields,
    spec_shape,
    state_fields,
    state_shape,
)
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.tables.errors import NoSuchTable
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table

LIST_EXAMPLES = """
$ everlog table list
$ everlog table list --json | jq '.tables[].location'
"""


@command("list", examples=LIST_EXAMPLES)
@bootstrap_option
def list_tables(*, bootstrap: str, timeout: float) -> Report:
    """List the tables that are declared on a cluster."""
    specs = all_specs(bootstrap, timeout)
    rows = [(spec.name, spec.topic, spec.format, spec.mode, spec.location) for spec in specs]
    header = ("TABLE", "TOPIC", "FORMAT", "MODE", "LOCATION")
    block: Block = Table(header, rows) if rows else Line("no tables")
    return Report({"tables": [spec_shape(spec) for spec in specs]}, [block])


DESCRIBE_EXAMPLES = """
$ everlog table describe orders
$ everlog table describe orders --commits 20
$ everlog table describe orders --json | jq '.lag'
"""


@command("describe", examples=DESCRIBE_EXAMPLES)
@table_argument
@click.option(
    "--commits",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    metavar="N",
    help="The newest N commits.",
)
@bootstrap_option
def describe(*, name: str, commits: int, bootstrap: str, timeout: float) -> Report:
    """Show a table: what is declared, what it holds, how far it is behind its topic, its newest commits."""
    spec = find_spec(bootstrap, timeout, name)
    blocks: list[Block] = [Line(f"table {name}"), spec_fields(spec)]
    data: dict[str, object] = {"table": spec_shape(spec), "state": None, "commits": []}
    errors: list[str] = []
    offsets: dict[TopicPartition, int] = {}
    try:
        table = open_table(spec, create=False)
        found = table.describe()
        offsets = found.offsets
        history = table.history()[-commits:] if commits else []
        blocks.append(state_fields(found))
        data["state"] = state_shape(found)
        data["commits"] = [commit_shape(commit) for commit in history]
    except NoSuchTable:
        history = []
        blocks.append(Line("not made yet: `everlog table run` makes it"))
    try:
        ends = topic_ends(bootstrap, timeout, spec)
    except EverlogError as error:
        ends = {}
        errors.append(str(error))
    lag = lag_of(offsets, ends)
    data["lag"] = sum(lag.values()) if ends else None
    data["partitions"] = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "offset": offsets.get(place),
            "end_offset": ends.get(place),
            "lag": lag.get(place),
        }
        for place in sorted({*offsets, *ends})
    ]
    if ends:
        rows = [(place.partition, offsets.get(place), end, lag[place]) for place, end in sorted(ends.items())]
        blocks.append(Table(("PARTITION", "OFFSET", "END", "LAG"), rows))
    if history:
        rows_of_history = [
            (
                commit.version,
                time_text(commit.timestamp_ms),
                commit.operation,
                commit.writer,
                commit.batch_id,
                offsets_text(commit.offsets),
            )
            for commit in history
        ]
        blocks.append(Table(("VERSION", "AT", "OPERATION", "WRITER", "BATCH", "OFFSETS"), rows_of_history))
    if ends:
        blocks.append(Line(f"{counted(sum(lag.values()), 'record')} behind"))
    return Report(data, blocks, errors)


def topic_ends(bootstrap: str, timeout: float, spec: TableSpec) -> dict[TopicPartition, int]:
    """The end of each partition of a table's topic, as a reader of committed records sees it."""
    with open_admin(bootstrap, timeout) as admin:
        topic = admin.describe_topics([spec.topic])[spec.topic]
        places = [TopicPartition(spec.topic, index) for index in topic.partitions]
        ends = admin.list_offsets(places, isolation_level="read_committed")
    return {place: entry.offset for place, entry in ends.items() if entry is not None}
