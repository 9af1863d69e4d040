"""`everlog group delete|delete-offsets`."""

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_groups, complete_topics
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option, confirm, dry_run_option, yes_option
from everlog.cli.output import Line, Report
from everlog.cli.shapes import error_shape
from everlog.client.core.admin.groups import group_refusal
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.place_spec import parse_places
from everlog.client.sync.admin import Admin
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
    failed: dict[str, Refused] = {}
    with open_admin(bootstrap, timeout) as admin:
        if not dry_run and not confirm(f"Delete {', '.join(group_ids)} and all of their offsets?", yes=yes):
            raise click.Abort
        try:
            if dry_run:
                failed = _would_fail(admin, group_ids)
            else:
                admin.delete_groups(group_ids)
        except ItemsRefused as error:
            failed = error.errors
    missing = ErrorCode.GROUP_ID_NOT_FOUND
    errors = [str(error) for error in failed.values() if not (if_exists and error.code is missing)]
    did = "would delete" if dry_run else "deleted"
    wanted = list(dict.fromkeys(group_ids))
    lines = [Line(f"{did} group {group_id}") for group_id in wanted if group_id not in failed]
    shapes = [
        {
            "group": group_id,
            "deleted": group_id not in failed and not dry_run,
            "error": error_shape(failed.get(group_id)),
        }
        for group_id in wanted
    ]
    return Report({"dry_run": dry_run, "groups": shapes}, lines, errors)


def _would_fail(admin: Admin, group_ids: tuple[str, ...]) -> dict[str, Refused]:
    """Groups that could not be deleted now, and why."""
    failed: dict[str, Refused] = {}
    try:
        found = admin.describe_groups(group_ids)
    except ItemsRefused as error:
        found, failed = error.done, error.errors
    for group_id, group in found.items():
        if group.is_active:
            failed[group_id] = group_refusal(ErrorCode.NON_EMPTY_GROUP, None, group_id)
    return failed


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
    failed: dict[TopicPartition, Refused] = {}
    with open_admin(bootstrap, timeout) as admin:
        try:
            admin.describe_group(group_id)
            places = _places(admin, group_id, wanted)
            if not dry_run:
                named = ", ".join(str(place) for place in places)
                if not confirm(f"Delete the offsets of {group_id} in {named}?", yes=yes):
                    raise click.Abort
                try:
                    admin.delete_group_offsets(group_id, places)
                except ItemsRefused as error:
                    failed = error.errors
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
    errors = [str(error) for error in failed.values()]
    data: dict[str, object] = {"group": group_id, "dry_run": dry_run, "partitions": shapes, "error": None}
    return Report(data, lines, errors)


def _places(admin: Admin, group_id: str, wanted: dict[str, list[int] | None]) -> list[TopicPartition]:
    """The partitions to forget; ConfigError for one that has no committed offset."""
    committed = admin.list_group_offsets(group_id)
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
