"""`everlog cluster relocate`."""

import time
from collections.abc import Mapping

import click

from everlog.cli.command import command
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option, confirm, dry_run_option, yes_option
from everlog.cli.output import Block, Line, Report, Table
from everlog.cli.progress import Progress
from everlog.cli.shapes import counted, error_shape, size_text
from everlog.client.core.admin.log_dirs import LogDir, Replica
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.place_spec import parse_places
from everlog.client.sync.admin import Admin
from everlog.model.errors import ConfigError, Refused
from everlog.model.topics import TopicPartition

EXAMPLES = """
$ everlog cluster relocate 1 orders --to /disk2/everlog --dry-run
$ everlog cluster relocate 1 orders:0,3 --to /disk2/everlog --yes
$ everlog cluster relocate 1 orders:0 --to /disk1/everlog      # back again: a move under way is called off
"""

_POLL_SECONDS = 0.5
_Found = dict[TopicPartition, tuple[str, int]]
"""Where the replica of each partition lies, and its size."""


@command("relocate", examples=EXAMPLES)
@click.argument("broker", type=int)
@click.argument("specs", nargs=-1, required=True, metavar="TOPIC[:PARTITION,…]…")
@click.option("--to", "target", required=True, metavar="DIR", help="One of the broker's log directories.")
@click.option("--no-wait", is_flag=True, help="Return once the moves have begun.")
@yes_option
@dry_run_option
@bootstrap_option
def relocate(
    *,
    broker: int,
    specs: tuple[str, ...],
    target: str,
    no_wait: bool,
    yes: bool,
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Move a broker's replicas to another of its log directories.

    They can be read and written all the time. How fast a broker copies is its setting
    replica.alter.log.dirs.io.max.bytes.per.second. Moves go on whether somebody watches or not.
    """
    with open_admin(bootstrap, timeout) as admin:
        directories = admin.describe_log_dirs([broker])
        paths = [one.path for one in directories if one.error is None]
        if target not in paths:
            raise click.UsageError(
                f"broker {broker} has no log directory {target} that can be used, expected {', '.join(paths)}"
            )
        try:
            found = _held(directories, specs)
        except ConfigError as error:
            raise click.UsageError(str(error)) from None
        moves = {place: held for place, held in found.items() if held[0] != target}
        failed: dict[TopicPartition, Refused] = {}
        if found and not dry_run:
            size = size_text(sum(size for _, size in moves.values()))
            question = f"Copy {counted(len(moves), 'replica')}, {size}, to {target} of broker {broker}?"
            if moves and not confirm(question, yes=yes):
                raise click.Abort
            # Those that are there may be on their way elsewhere, which this calls off.
            failed = _begin(admin, broker, list(found), target)
            if not no_wait:
                _watch(admin, broker, {one: held for one, held in moves.items() if one not in failed}, target)
    return _report(moves, failed, broker, target, dry_run=dry_run)


def _held(directories: list[LogDir], specs: tuple[str, ...]) -> _Found:
    """The replicas that were named, and where each lies; ConfigError for what the broker does not have."""
    all_found: _Found = {
        place: (one.path, size)
        for one in directories
        for place, size in one.partition_bytes.items()
        if place not in one.moving_in
    }
    found: _Found = {}
    for topic, indexes in parse_places(specs).items():
        mine = sorted(place for place in all_found if place.topic == topic)
        places = mine if indexes is None else [TopicPartition(topic, index) for index in indexes]
        missing = [str(place) for place in places if place not in all_found]
        if missing or not places:
            raise ConfigError(f"the broker has no replica of {', '.join(missing) or topic}")
        found |= {place: all_found[place] for place in places}
    return found


def _begin(
    admin: Admin, broker: int, places: list[TopicPartition], target: str
) -> dict[TopicPartition, Refused]:
    try:
        admin.alter_replica_log_dirs({Replica(place, broker): target for place in places})
    except ItemsRefused as error:
        return {replica.place: why for replica, why in error.errors.items()}
    return {}


def _watch(admin: Admin, broker: int, moves: _Found, target: str) -> None:
    """Wait until all of them lie in `target`, with a bar for whoever looks."""
    done = 0
    total = sum(size for _, size in moves.values())
    with Progress("copying", total, "B") as progress:
        while moves:
            (there,) = [one for one in admin.describe_log_dirs([broker], list(moves)) if one.path == target]
            copied = sum(min(there.partition_bytes.get(place, 0), size) for place, (_, size) in moves.items())
            progress.step(max(0, copied - done))
            done = max(done, copied)
            if all(place in there.partition_bytes and place not in there.moving_in for place in moves):
                break
            time.sleep(_POLL_SECONDS)
        progress.step(max(0, total - done))


def _report(
    moves: _Found, failed: Mapping[TopicPartition, Refused], broker: int, target: str, *, dry_run: bool
) -> Report:
    shapes = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "from": path,
            "to": target,
            "bytes_to_move": size,
            "error": error_shape(failed.get(place)),
        }
        for place, (path, size) in moves.items()
    ]
    said: list[Block] = [Line(f"nothing to move: all of it is in {target}")]
    if moves:
        rows = [(str(place), path, target, size_text(size)) for place, (path, size) in moves.items()]
        said = [Table(("PARTITION", "FROM", "TO", "TO COPY"), rows)]
    return Report(
        {"dry_run": dry_run, "broker": broker, "moves": shapes}, said, [str(one) for one in failed.values()]
    )
