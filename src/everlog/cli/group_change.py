"""`everlog group delete|delete-offsets`."""

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_groups, complete_topics
from everlog.cli.options import bootstrap_option, confirm, dry_run_option, yes_option
from everlog.cli.output import Line, Report
from everlog.cli.shapes import error_shape
from everlog.client.core.group_admin import group_refusal
from everlog.client.core.place_spec import parse_places
from everlog.client.core.topic_admin import Done
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.group_admin import GroupAdmin
from everlog.model.errors import ConfigError, ErrorCode, Refused
from everlog.model.topics import TopicPartition

DELETE_EXAMPLES = """
$ everlog group delete billing
$ everlog group delete billing audit --yes
$ everlog group delete billing --dry-run
"""


@command("delete", examples=DELETE_EXAMPLES)
@click.argument("group_ids", nargs=-1, required=True, metavar="GROUP…", shell_complete=complete_groups)
@click.option("--if-exists", is_flag=True, help="Groups that do not exist are no error.")
@yes_option
@dry_run_option
@bootstrap_option
def delete(
    *, group_ids: tuple[str, ...], if_exists: bool, yes: bool, dry_run: bool, bootstrap: str, timeout: float
) -> Report:
    """Delete groups without members, and all offsets they have committed. That cannot be undone."""
    with Cluster(bootstrap, timeout=timeout) as cluster:
        admin = GroupAdmin(cluster)
        if not dry_run and not confirm(f"Delete {', '.join(group_ids)} and all of their offsets?", yes=yes):
            raise click.Abort
        results = (
            [_checked(admin, group_id) for group_id in group_ids] if dry_run else admin.delete(group_ids)
        )
    missing = ErrorCode.GROUP_ID_NOT_FOUND
    failed = [
        result.error
        for result in results
        if result.error is not None and not (if_exists and result.error.code is missing)
    ]
    did = "would delete" if dry_run else "deleted"
    lines = [Line(f"{did} group {result.name}") for result in results if result.error is None]
    shapes = [
        {
            "group": result.name,
            "deleted": result.error is None and not dry_run,
            "error": error_shape(result.error),
        }
        for result in results
    ]
    return Report({"dry_run": dry_run, "groups": shapes}, lines, [str(error) for error in failed])


def _checked(admin: GroupAdmin, group_id: str) -> Done:
    """Whether a group could be deleted now."""
    try:
        group = admin.describe(group_id)
    except Refused as error:
        return Done(group_id, error)
    if group.is_active:
        return Done(group_id, group_refusal(ErrorCode.NON_EMPTY_GROUP, None, group_id))
    return Done(group_id)


DELETE_OFFSETS_EXAMPLES = """
$ everlog group delete-offsets billing --topic orders
$ everlog group delete-offsets billing --topic orders:0,2 --topic audit --yes
"""


@command("delete-offsets", examples=DELETE_OFFSETS_EXAMPLES)
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:N,…]",
    shell_complete=complete_topics,
    help="A topic, or some of its partitions; repeatable.",
)
@yes_option
@dry_run_option
@bootstrap_option
def delete_offsets(
    *, group_id: str, topics: tuple[str, ...], yes: bool, dry_run: bool, bootstrap: str, timeout: float
) -> Report:
    """Delete the offsets that a group has committed in some topics, which it must not be reading now.

    Without partitions all of the topic's are meant. Who reads them next begins where auto.offset.reset says.
    """
    try:
        wanted = parse_places(topics)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    with Cluster(bootstrap, timeout=timeout) as cluster:
        admin = GroupAdmin(cluster)
        try:
            admin.describe(group_id)
            places = _places(admin, group_id, wanted)
            failed: dict[TopicPartition, Refused | None] = {}
            if not dry_run:
                named = ", ".join(str(place) for place in places)
                if not confirm(f"Delete the offsets of {group_id} in {named}?", yes=yes):
                    raise click.Abort
                failed = admin.delete_offsets(group_id, places)
        except Refused as error:
            return Report({"group": group_id, "error": error_shape(error)}, errors=[str(error)])
    did = "would delete" if dry_run else "deleted"
    shapes = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "deleted": not dry_run and failed.get(place) is None,
            "error": error_shape(failed.get(place)),
        }
        for place in places
    ]
    lines = [
        Line(f"{did} the offset of {group_id} in {place}") for place in places if failed.get(place) is None
    ]
    errors = [str(error) for error in failed.values() if error is not None]
    data: dict[str, object] = {"group": group_id, "dry_run": dry_run, "partitions": shapes, "error": None}
    return Report(data, lines, errors)


def _places(admin: GroupAdmin, group_id: str, wanted: dict[str, list[int] | None]) -> list[TopicPartition]:
    """The partitions to forget; ConfigError for one that has no committed offset."""
    committed = admin.offsets(group_id)
    places: set[TopicPartition] = set()
    for topic, indexes in wanted.items():
        known = {place.partition for place in committed if place.topic == topic}
        chosen = known if indexes is None else set(indexes)
        absent = sorted(chosen - known)
        if absent or not chosen:
            what = TopicPartition(topic, absent[0]) if absent else f"topic {topic!r}"
            raise ConfigError(f"group {group_id!r} has no committed offset in {what}")
        places.update(TopicPartition(topic, index) for index in chosen)
    return sorted(places)
