"""`everlog cluster reassign`."""

import re
from collections.abc import Mapping
from pathlib import Path

import click

from everlog.cli.command import command
from everlog.cli.connect import open_admin
from everlog.cli.moves import (
    Layout,
    begin,
    layout_of,
    lead_well,
    move_shape,
    plan_blocks,
    remove_throttles,
    set_throttle,
    watch,
)
from everlog.cli.options import bootstrap_option, confirm, dry_run_option, yes_option
from everlog.cli.output import Block, Line, Report
from everlog.cli.shapes import counted, error_shape, size_text
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.placement import Reassignment
from everlog.client.core.admin.reassign_file import plan_shape, read_plan
from everlog.client.core.admin.reassign_plan import PartitionMove, ReassignPlan, plan_balance, plan_given
from everlog.client.sync.admin import Admin
from everlog.model.errors import ConfigError, Refused
from everlog.model.topics import TopicPartition

EXAMPLES = """
$ everlog cluster reassign                                  # even out all topics over all brokers
$ everlog cluster reassign --brokers 1,2,3,4 --throttle 50M --dry-run
$ everlog cluster reassign --topics orders,audit --brokers 4,5,6 --yes
$ everlog cluster reassign --from-file plan.json            # the JSON of kafka-reassign-partitions
$ everlog cluster reassign --watch                          # follow what is moving
$ everlog cluster reassign --cancel                         # call off what is moving
"""

_RATE = re.compile(r"(\d+)\s*([KMG]?)(?:i?B)?(?:/s)?", re.I)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def _ids(_ctx: click.Context, _param: click.Parameter, text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise click.UsageError(f"--brokers {text!r} cannot be read: expected ids such as 1,2,3")
    return sorted({int(part) for part in parts})


def _rate(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    found = _RATE.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise click.UsageError(
            f"--throttle {text!r} cannot be read: expected bytes a second above 0, such as 50M or 1048576"
        )
    return int(found[1]) * _UNITS[found[2].upper()]


def throttle_option(function: "click.decorators.FC") -> "click.decorators.FC":
    """Add `--throttle`, which arrives in bytes a second."""
    return click.option(
        "--throttle",
        metavar="BYTES/S",
        callback=_rate,
        help="How fast each broker may copy, such as 50M; taken away at the end.",
    )(function)


@command("reassign", examples=EXAMPLES)
@click.option("--brokers", metavar="ID,…", callback=_ids, help="Who may have replicas.  [default: all]")
@click.option("--topics", metavar="TOPIC,…", help="Only these topics.  [default: all]")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="JSON",
    help="Do what a file says, in the form of kafka-reassign-partitions.",
)
@throttle_option
@click.option("--no-wait", is_flag=True, help="Return as soon as the moves are under way.")
@click.option(
    "--wait",
    "limit_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Watch no longer than this; the moves go on.",
)
@click.option("--watch", "only_watch", is_flag=True, help="Begin nothing; follow what is moving to its end.")
@click.option("--cancel", is_flag=True, help="Call off what is moving; replicas are as before.")
@yes_option
@dry_run_option
@bootstrap_option
def reassign(
    *,
    brokers: list[int] | None,
    topics: str | None,
    from_file: Path | None,
    throttle: int | None,
    no_wait: bool,
    limit_s: float | None,
    only_watch: bool,
    cancel: bool,
    yes: bool,
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Move partitions so that brokers have equal shares, and copy as little as that takes.

    Each broker gets as many replicas and as many leads as any other, or one more; the replicas of a partition
    stand in different racks as far as there are. The plan is shown with the bytes that it copies before
    anything is done. A bar shows how far it is. At the end preferred leaders lead and the throttle is gone.
    """
    names = None if topics is None else [name.strip() for name in topics.split(",") if name.strip()]
    _check_options(brokers, names, from_file, no_wait=no_wait, only_watch=only_watch, cancel=cancel)
    with open_admin(bootstrap, timeout) as admin:
        if cancel or only_watch:
            return _on_the_way(admin, names, cancel=cancel, yes=yes, dry_run=dry_run, limit_s=limit_s)
        try:
            layout = layout_of(admin, names)
            plan = _plan(layout, brokers, from_file)
        except ItemsRefused as error:
            return Report({"error": error_shape(error)}, errors=[str(error)])
        except ConfigError as error:
            raise click.UsageError(str(error)) from None
        return _carry_out(
            admin, layout, plan, throttle=throttle, no_wait=no_wait, limit_s=limit_s, yes=yes, dry_run=dry_run
        )


def _check_options(
    brokers: list[int] | None,
    names: list[str] | None,
    from_file: Path | None,
    *,
    no_wait: bool,
    only_watch: bool,
    cancel: bool,
) -> None:
    if names == []:
        raise click.UsageError("--topics names none: expected names with commas between them")
    if from_file is not None and (brokers is not None or names is not None):
        raise click.UsageError("--from-file says what moves where: leave out --brokers and --topics")
    if cancel and only_watch:
        raise click.UsageError("--cancel and --watch cannot both be done: expected one of them")
    if (cancel or only_watch) and (brokers is not None or from_file is not None or no_wait):
        which = "--cancel" if cancel else "--watch"
        raise click.UsageError(
            f"{which} is about what is moving: leave out --brokers, --from-file and --no-wait"
        )


def _plan(layout: Layout, brokers: list[int] | None, from_file: Path | None) -> ReassignPlan:
    if from_file is not None:
        known = {*layout.racks, *layout.fenced}
        try:
            return plan_given(layout.replicas, read_plan(from_file.read_text()), known, layout.sizes)
        except ConfigError as error:
            raise ConfigError(f"{from_file}: {error}") from None
    chosen = list(layout.racks) if brokers is None else brokers
    strange = [broker for broker in chosen if broker not in layout.racks]
    if strange:
        why = "is fenced" if strange[0] in layout.fenced else "does not exist"
        there = ", ".join(map(str, sorted(layout.racks)))
        raise ConfigError(f"broker {strange[0]} of --brokers {why}, expected brokers that serve: {there}")
    return plan_balance(layout.replicas, {broker: layout.racks[broker] for broker in chosen}, layout.sizes)


def _carry_out(
    admin: Admin,
    layout: Layout,
    plan: ReassignPlan,
    *,
    throttle: int | None,
    no_wait: bool,
    limit_s: float | None,
    yes: bool,
    dry_run: bool,
) -> Report:
    data: dict[str, object] = {
        "dry_run": dry_run,
        "bytes_to_move": plan.bytes_to_move,
        "replicas_to_move": plan.replicas_to_move,
        "throttle": throttle,
        "moves": [move_shape(move) for move in plan.moves],
        "plan": plan_shape({move.place: move.after for move in plan.moves}),
        "rollback": plan_shape({move.place: move.before for move in plan.moves}),
        "done": False,
    }
    blocks = plan_blocks(plan, layout.leaders)
    if dry_run or not plan.moves:
        return Report({**data, "done": not dry_run}, blocks)
    _show(blocks)
    size = size_text(plan.bytes_to_move)
    if not confirm(f"Move {counted(len(plan.moves), 'partition')} and copy {size}?", yes=yes):
        raise click.Abort
    try:
        failed, notes, ended = execute(
            admin, layout, plan, throttle=throttle, no_wait=no_wait, limit_s=limit_s
        )
    except ItemsRefused as error:
        return Report({**data, "errors": [error_shape(error)]}, errors=[f"nothing was moved: {error}"])
    data["errors"] = [error_shape(error) for error in failed.values()]
    data["done"] = ended and not failed
    moved = len(plan.moves) - len(failed)
    said = f"moved {counted(moved, 'partition')}" if ended else f"{counted(moved, 'partition')} on the way"
    return Report(data, [Line(said)], [*map(str, failed.values()), *notes])


def execute(
    admin: Admin,
    layout: Layout,
    plan: ReassignPlan,
    *,
    throttle: int | None,
    no_wait: bool = False,
    limit_s: float | None = None,
) -> tuple[Mapping[TopicPartition, Refused], list[str], bool]:
    """Carry a plan out: what was refused, what else there is to say, and whether all of it has ended."""
    set_throttle(admin, plan, throttle, layout.racks)
    failed = begin(admin, plan)
    if no_wait:
        return failed, [], False
    # Whoever stops watching leaves the throttle: without it the moves would crowd out everything else.
    watch(admin, [move for move in plan.moves if move.place not in failed], limit_s)
    if throttle is not None:
        remove_throttles(admin, [move.place for move in plan.moves], layout.racks)
    return failed, lead_well(admin, plan, failed), True


def _show(blocks: list[Block]) -> None:
    """The plan on stderr: stdout has the result, which a program may read."""
    for block in blocks:
        for line in block.lines():
            click.echo(line, err=True)


def _on_the_way(
    admin: Admin,
    names: list[str] | None,
    *,
    cancel: bool,
    yes: bool,
    dry_run: bool,
    limit_s: float | None,
) -> Report:
    moving = {
        place: reassignment
        for place, reassignment in admin.list_partition_reassignments().items()
        if names is None or place.topic in names
    }
    layout = layout_of(admin, sorted({place.topic for place in moving}))
    moves = [_as_move(place, moving[place], layout.sizes.get(place, 0)) for place in sorted(moving)]
    data: dict[str, object] = {
        "dry_run": dry_run,
        "moves": [move_shape(move) for move in moves],
        "cancelled": False,
        "done": not moves,
    }
    if not moves or dry_run:
        plan = ReassignPlan(moves)
        said: list[Block] = plan_blocks(plan, {}) if moves else [Line("nothing is moving")]
        return Report(data, said)
    if not cancel:
        watch(admin, moves, limit_s)
        remove_throttles(admin, moving, layout.racks)
        return Report({**data, "done": True}, [Line(f"moved {counted(len(moves), 'partition')}")])
    if not confirm(f"Call off the moves of {counted(len(moves), 'partition')}?", yes=yes):
        raise click.Abort
    failed: Mapping[TopicPartition, Refused] = {}
    try:
        admin.alter_partition_reassignments(dict.fromkeys(moving))
    except ItemsRefused as error:
        failed = error.errors
    watch(admin, moves, limit_s)
    remove_throttles(admin, moving, layout.racks)
    said = [Line(f"called off the moves of {counted(len(moves) - len(failed), 'partition')}")]
    return Report({**data, "cancelled": True, "done": True}, said, [str(error) for error in failed.values()])


def _as_move(place: TopicPartition, moving: Reassignment, size_bytes: int) -> PartitionMove:
    before = [broker for broker in moving.replicas if broker not in moving.adding]
    after = [broker for broker in moving.replicas if broker not in moving.removing]
    return PartitionMove(place, before, after, size_bytes)
