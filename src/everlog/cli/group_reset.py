"""`everlog group reset-offsets`."""

import time
from collections.abc import Sequence
from pathlib import Path

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_groups, complete_topics
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Block, Cell, Line, Report, Table
from everlog.cli.shapes import counted, error_shape
from everlog.client.core.admin.offset_reset import (
    FromFile,
    Move,
    ResetPlan,
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
    csv_row,
    read_csv,
)
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.place_spec import parse_places
from everlog.client.core.consumer.offset_spec import duration_from_text, moment_from_text
from everlog.model.errors import ConfigError, Refused
from everlog.model.ids import Timestamp
from everlog.model.topics import TopicPartition

EXAMPLES = """
$ everlog group reset-offsets billing --topic orders --to-earliest            # shows what would be done
$ everlog group reset-offsets billing --topic orders --to-earliest --execute  # does it
$ everlog group reset-offsets billing --topic orders:0,2 --to-offset 1200 --execute
$ everlog group reset-offsets billing --all-topics --to-datetime 2026-01-31T08:00+01:00
$ everlog group reset-offsets billing --all-topics --by-duration 1h30m --execute
$ everlog group reset-offsets billing --all-topics --to-current --export > offsets.csv
$ everlog group reset-offsets billing --from-file offsets.csv --execute
"""


@command("reset-offsets", examples=EXAMPLES)
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,…]",
    shell_complete=complete_topics,
    help="A topic, or some of its partitions; repeatable.",
)
@click.option("--all-topics", is_flag=True, help="All partitions that the group has committed.")
@click.option("--to-earliest", is_flag=True, help="To the first record that is still there.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="To the first record of this time or later: ISO 8601, UTC unless it says otherwise.",
)
@click.option("--by-duration", metavar="SPAN", help="To the first record of so long ago, such as 1h30m.")
@click.option("--shift-by", type=int, metavar="N", help="So many offsets on, or back if negative.")
@click.option("--to-current", is_flag=True, help="To what is committed already: to export it.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="CSV",
    help="To what a file says in rows of topic,partition,offset.",
)
@click.option(
    "--dry-run/--execute",
    "dry_run",
    default=True,
    show_default=True,
    help="Show what would be done, or do it.",
)
@click.option("--export", is_flag=True, help="Print the new offsets as CSV for --from-file.")
@bootstrap_option
def reset_offsets(
    *,
    group_id: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    to_current: bool,
    from_file: Path | None,
    dry_run: bool,
    export: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Move the offsets of a group, which must have no members.

    Shows what would be done unless --execute is given. Offsets beyond what the log holds become its first
    or its end. A group that does not exist yet gets its first offsets this way.
    """
    try:
        target = _target(
            {
                "--to-earliest": ToEarliest() if to_earliest else None,
                "--to-latest": ToLatest() if to_latest else None,
                "--to-offset": None if to_offset is None else ToOffset(to_offset),
                "--to-datetime": None if to_datetime is None else _to_datetime(to_datetime),
                "--by-duration": None if by_duration is None else _by_duration(by_duration),
                "--shift-by": None if shift_by is None else ShiftBy(shift_by),
                "--to-current": ToCurrent() if to_current else None,
                "--from-file": None if from_file is None else _from_file(from_file),
            }
        )
        wanted = _wanted(topics, all_topics=all_topics, has_file=from_file is not None)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    failed: dict[TopicPartition, Refused] = {}
    with open_admin(bootstrap, timeout) as admin:
        try:
            plan = admin.reset_group_offsets(group_id, target, wanted, dry_run=True)
        except Refused as error:
            return Report({"group": group_id, "error": error_shape(error)}, errors=[str(error)])
        if not dry_run:
            try:
                admin.alter_group_offsets(group_id, {move.place: move.to for move in plan.moves})
            except ItemsRefused as error:
                failed = error.errors
    return _report(plan, failed, dry_run=dry_run, export=export)


def _target(choices: dict[str, Target | None]) -> Target:
    chosen = {flag: target for flag, target in choices.items() if target is not None}
    if len(chosen) != 1:
        found = " and ".join(chosen) if chosen else "none"
        raise ConfigError(f"where to is not clear, found {found}: expected one of {', '.join(choices)}")
    return next(iter(chosen.values()))


def _to_datetime(text: str) -> ToTime:
    moment = moment_from_text(text)
    if moment is None:
        raise ConfigError(
            f"--to-datetime {text!r} cannot be read: expected ISO 8601 such as 2026-01-31T08:00 or …+01:00"
        )
    return ToTime(moment)


def _by_duration(text: str) -> ToTime:
    span_ms = duration_from_text(text)
    if span_ms is None:
        raise ConfigError(f"--by-duration {text!r} cannot be read: expected a span such as 1d, 1h30m or 90s")
    return ToTime(Timestamp(max(0, int(time.time() * 1000) - span_ms)))


def _from_file(path: Path) -> FromFile:
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            return FromFile(read_csv(lines, f"file {path}"))
    except UnicodeDecodeError:
        raise ConfigError(f"file {path} is not text: expected rows of topic,partition,offset") from None


def _wanted(topics: Sequence[str], *, all_topics: bool, has_file: bool) -> dict[str, list[int] | None] | None:
    if bool(topics) + all_topics + has_file != 1:
        raise ConfigError(
            "which partitions is not clear: expected one of --topic, --all-topics or --from-file"
        )
    return parse_places(topics) if topics else None


def _report(plan: ResetPlan, failed: dict[TopicPartition, Refused], *, dry_run: bool, export: bool) -> Report:
    shapes = [
        {
            "topic": move.place.topic,
            "partition": move.place.partition,
            "before": move.before,
            "offset": move.to,
            "asked": move.asked,
            "reset": not dry_run and failed.get(move.place) is None,
            "error": error_shape(failed.get(move.place)),
        }
        for move in plan.moves
    ]
    data: dict[str, object] = {
        "group": plan.group_id,
        "dry_run": dry_run,
        "new_group": plan.is_new,
        "partitions": shapes,
        "error": None,
    }
    done = [move for move in plan.moves if failed.get(move.place) is None]
    blocks = [Line(csv_row(move)) for move in done] if export else _text(plan, done, dry_run=dry_run)
    return Report(data, blocks, [str(error) for error in failed.values()])


def _text(plan: ResetPlan, moves: Sequence[Move], *, dry_run: bool) -> list[Block]:
    header = ["TOPIC", "PARTITION", "BEFORE", "AFTER"]
    rows: list[list[Cell]] = [
        [move.place.topic, move.place.partition, move.before, move.to] for move in moves
    ]
    if any(move.is_clamped for move in moves):
        header.append("NOTE")
        for row, move in zip(rows, moves, strict=True):
            row.append(f"{move.asked} is not in the log" if move.is_clamped else "")
    did = "would reset" if dry_run else "reset"
    new = ", a new group" if plan.is_new else ""
    blocks: list[Block] = [Line(f"{did} {counted(len(rows), 'offset')} of {plan.group_id}{new}")]
    if rows:
        blocks.append(Table(header, rows))
    if dry_run:
        blocks.append(Line("\nnothing was changed: --execute does it"))
    return blocks
