"""`everlog cluster elect`."""

import time
from collections.abc import Sequence

import click

from everlog.cli.command import command
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option, confirm, dry_run_option, yes_option
from everlog.cli.output import Block, Line, Report, Table
from everlog.cli.shapes import counted, error_shape
from everlog.client.core.admin.choices import Election
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.place_spec import parse_places
from everlog.client.core.metadata import Partition
from everlog.client.sync.admin import Admin
from everlog.model.errors import ConfigError, Refused
from everlog.model.topics import TopicPartition

EXAMPLES = """
$ everlog cluster elect preferred                 # wherever another leads than should
$ everlog cluster elect preferred orders audit:0,2
$ everlog cluster elect unclean orders:3          # records may be lost
"""

_ASK_AGAIN_SECONDS = 0.1


@command("elect", examples=EXAMPLES)
@click.argument("kind", type=click.Choice(["preferred", "unclean"]))
@click.argument("specs", nargs=-1, metavar="[TOPIC[:PARTITION,…]]…")
@yes_option
@dry_run_option
@bootstrap_option
def elect(
    *, kind: str, specs: tuple[str, ...], yes: bool, dry_run: bool, bootstrap: str, timeout: float
) -> Report:
    """Give partitions the leaders that they should have.

    `preferred` lets the first replica lead where it is in sync; nothing is lost. `unclean` lets any replica
    lead a partition that nobody in sync is left of: it can be used again, and what only others had is lost.
    Without topics it is done wherever it is needed.
    """
    election = Election.PREFERRED if kind == "preferred" else Election.UNCLEAN
    with open_admin(bootstrap, timeout) as admin:
        try:
            wanted = _needing(admin, specs, election)
        except ConfigError as error:
            raise click.UsageError(str(error)) from None
        except ItemsRefused as error:
            return Report({"error": error_shape(error)}, errors=[str(error)])
        failed: dict[TopicPartition, Refused] = {}
        if wanted and not dry_run:
            lossy = "Records that no replica in sync has are lost. " if election is Election.UNCLEAN else ""
            if lossy and not confirm(f"{lossy}Elect {counted(len(wanted), 'leader')}?", yes=yes):
                raise click.Abort
            try:
                admin.elect_leaders(wanted, election=election)
            except ItemsRefused as error:
                failed = error.errors
        leaders = _leaders(admin, wanted, failed, 0 if dry_run else timeout)
    return _report(wanted, leaders, failed, kind, dry_run=dry_run)


def _needing(admin: Admin, specs: tuple[str, ...], election: Election) -> dict[TopicPartition, Partition]:
    """The partitions that were named, or all, if an election could change anything there."""
    specced = parse_places(specs)
    topics = admin.describe_topics(list(specced) if specced else None)
    found: dict[TopicPartition, Partition] = {}
    for name, topic in topics.items():
        indexes = specced.get(name)
        for index in topic.partitions if indexes is None else indexes:
            partition = topic.partitions.get(index)
            if partition is None:
                last = len(topic.partitions) - 1
                raise ConfigError(f"partition {name}-{index} does not exist, expected 0 to {last}")
            if _needs(partition, election, named=bool(specced)):
                found[TopicPartition(name, index)] = partition
    return found


def _needs(partition: Partition, election: Election, *, named: bool) -> bool:
    if election is Election.UNCLEAN:
        return partition.leader < 0
    preferred = partition.replicas[0] if partition.replicas else -1
    # One that is named is asked for in any case: whoever names it wants to know why it cannot be had.
    return partition.leader != preferred and (named or preferred in partition.isr)


def _leaders(
    admin: Admin,
    wanted: dict[TopicPartition, Partition],
    failed: dict[TopicPartition, Refused],
    limit_s: float,
) -> dict[TopicPartition, int]:
    """Who leads now. A broker may not have heard of an election yet; then it is asked again."""
    deadline = time.monotonic() + limit_s
    while True:
        topics = admin.describe_topics(sorted({place.topic for place in wanted})) if wanted else {}
        leaders = {place: topics[place.topic].partitions[place.partition].leader for place in wanted}
        stale = any(leaders[place] == wanted[place].leader for place in wanted if place not in failed)
        if not stale or time.monotonic() >= deadline:
            return leaders
        time.sleep(_ASK_AGAIN_SECONDS)


def _report(
    wanted: dict[TopicPartition, Partition],
    leaders: dict[TopicPartition, int],
    failed: dict[TopicPartition, Refused],
    kind: str,
    *,
    dry_run: bool,
) -> Report:
    shapes = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "leader_before": partition.leader,
            "leader": leaders[place],
            "error": error_shape(failed.get(place)),
        }
        for place, partition in wanted.items()
    ]
    said: list[Block]
    if not wanted:
        said = [Line(f"no {kind} election is needed")]
    elif dry_run:
        found = [
            (str(place), each.leader, _ids(each.replicas), _ids(each.isr)) for place, each in wanted.items()
        ]
        said = [Table(("PARTITION", "LEADER", "REPLICAS", "IN SYNC"), found)]
    else:
        rows = [(str(place), each.leader, leaders[place]) for place, each in wanted.items()]
        said = [Table(("PARTITION", "LED BY", "NOW BY"), rows)]
    return Report(
        {"dry_run": dry_run, "election": kind, "partitions": shapes},
        said,
        [str(error) for error in failed.values()],
    )


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
