"""`everlog group list|describe`."""

from collections.abc import Iterable, Sequence

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_groups
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Block, Cell, Fields, Line, Report, Table
from everlog.cli.shapes import counted, error_shape, span_text
from everlog.client.core.admin.group_lag import PartitionLag
from everlog.client.core.admin.groups import STATES, TYPES, Group, GroupMember
from everlog.model.errors import Refused
from everlog.model.topics import TopicPartition

LIST_EXAMPLES = """
$ everlog group list
$ everlog group list --state Stable --state Empty
$ everlog group list --type consumer --json
"""


@command("list", examples=LIST_EXAMPLES)
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only groups in this state; repeatable.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice(TYPES, case_sensitive=False),
    multiple=True,
    help="Only groups of this protocol: classic, or consumer for that of KIP-848; repeatable.",
)
@bootstrap_option
def list_groups(*, states: tuple[str, ...], types: tuple[str, ...], bootstrap: str, timeout: float) -> Report:
    """List the groups of a cluster, as all of its brokers know them."""
    with open_admin(bootstrap, timeout) as admin:
        listed = admin.list_groups(states=states, types=types)
    rows = [
        (
            entry.group_id,
            entry.state or None,
            entry.type.lower() or None,
            entry.protocol_type or None,
            entry.coordinator,
        )
        for entry in listed
    ]
    shapes = [
        {
            "group": entry.group_id,
            "state": entry.state or None,
            "type": entry.type.lower() or None,
            "protocol_type": entry.protocol_type,
            "coordinator": entry.coordinator,
        }
        for entry in listed
    ]
    header = ("GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR")
    return Report({"groups": shapes}, [Table(header, rows) if rows else Line("no groups")])


DESCRIBE_EXAMPLES = """
$ everlog group describe billing
$ everlog group describe billing --members --verbose
$ everlog group describe billing --json | jq '.partitions[] | select(.lag_seconds > 60)'
"""


@command("describe", examples=DESCRIBE_EXAMPLES)
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--members", "with_members", is_flag=True, help="Also each member and how much it reads.")
@click.option("--verbose", is_flag=True, help="Also ids of members, what they read, epochs and metadata.")
@bootstrap_option
def describe(*, group_id: str, with_members: bool, verbose: bool, bootstrap: str, timeout: float) -> Report:
    """Show a group's state, its members, and how far behind it is in each partition.

    LAG counts the offsets that are left to consume. BEHIND is the age of the first record not yet
    consumed: 0s when there is none, `-` when it is not known, as for a record without a timestamp.
    """
    with open_admin(bootstrap, timeout) as admin:
        try:
            group = admin.describe_group(group_id)
        except Refused as error:
            return Report({"group": group_id, "error": error_shape(error)}, errors=[str(error)])
        lags = admin.group_lag(group)
    blocks: list[Block] = [_facts(group, lags)]
    if with_members and group.members:
        blocks.append(members_table(group.members, verbose=verbose))
    blocks.append(lag_table(lags, verbose=verbose) if lags else Line("no committed offsets"))
    return Report(group_shape(group, lags), blocks)


def _total_lag(lags: Iterable[PartitionLag]) -> int | None:
    known = [entry.lag for entry in lags if entry.lag is not None]
    return sum(known) if known else None


def _most_behind_ms(lags: Iterable[PartitionLag]) -> int | None:
    return max((entry.lag_ms for entry in lags if entry.lag_ms is not None), default=None)


def _facts(group: Group, lags: Sequence[PartitionLag]) -> Fields:
    total, behind = _total_lag(lags), _most_behind_ms(lags)
    lag = None
    if total is not None:
        lag = counted(total, "record") + ("" if behind is None else f", {span_text(behind)} behind at most")
    pairs: list[tuple[str, Cell]] = [
        ("group", group.group_id),
        ("state", group.state),
        ("type", group.type),
        ("assignor", group.assignor or None),
        ("coordinator", f"{group.coordinator.node_id} ({group.coordinator.address})"),
        ("members", len(group.members)),
    ]
    if group.epoch is not None:
        pairs.append(("epoch", f"{group.epoch}, assigned {group.assignment_epoch}"))
    return Fields([*pairs, ("lag", lag)])


def lag_table(lags: Iterable[PartitionLag], *, verbose: bool) -> Table:
    """A line for each partition: where the group is, how far behind, and who reads it."""
    header = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BEHIND", "CLIENT", "HOST"]
    rows: list[list[Cell]] = []
    for entry in lags:
        member, committed = entry.member, entry.committed
        row: list[Cell] = [
            entry.place.topic,
            entry.place.partition,
            None if committed is None else committed.offset,
            entry.end,
            entry.lag,
            None if entry.lag_ms is None else span_text(entry.lag_ms),
            None if member is None else member.client_id,
            None if member is None else _host(member),
        ]
        if verbose:
            row += [
                None if member is None else member.member_id,
                None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch,
                (committed and committed.metadata) or None,
            ]
        rows.append(row)
    return Table([*header, "MEMBER", "EPOCH", "METADATA"] if verbose else header, rows)


def members_table(members: Iterable[GroupMember], *, verbose: bool) -> Table:
    """A line for each member."""
    header = ["CLIENT", "HOST", "INSTANCE", "PARTITIONS"]
    rows: list[list[Cell]] = []
    for member in members:
        row: list[Cell] = [member.client_id, _host(member), member.instance_id, len(member.assignment)]
        if verbose:
            row += [
                member.member_id,
                member.epoch,
                member.regex or ",".join(member.topics) or None,
                _places_text(member.assignment),
                None if member.target is None else _places_text(member.target),
            ]
        rows.append(row)
    return Table(
        [*header, "MEMBER", "EPOCH", "SUBSCRIBED", "ASSIGNED", "TARGET"] if verbose else header, rows
    )


def _host(member: GroupMember) -> str:
    """Java writes an address as `name/address` and leaves the name out."""
    return member.host.removeprefix("/")


def _places_text(places: Iterable[TopicPartition]) -> str | None:
    topics: dict[str, list[str]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append(str(place.partition))
    return " ".join(f"{topic}:{','.join(indexes)}" for topic, indexes in topics.items()) or None


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def group_shape(group: Group, lags: Sequence[PartitionLag]) -> dict[str, object]:
    """A group as JSON shows it; docs/cli.md lists the fields."""
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "coordinator": {
            "id": group.coordinator.node_id,
            "host": group.coordinator.host,
            "port": group.coordinator.port,
        },
        "lag": _total_lag(lags),
        "lag_seconds": _seconds(_most_behind_ms(lags)),
        "members": [_member_shape(member) for member in group.members],
        "partitions": [_lag_shape(entry) for entry in lags],
        "error": None,
    }


def _member_shape(member: GroupMember) -> dict[str, object]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": _host(member),
        "instance_id": member.instance_id,
        "rack": member.rack,
        "epoch": member.epoch,
        "topics": list(member.topics),
        "regex": member.regex,
        "assignment": [_place_shape(place) for place in member.assignment],
        "target": None if member.target is None else [_place_shape(place) for place in member.target],
    }


def _place_shape(place: TopicPartition) -> dict[str, object]:
    return {"topic": place.topic, "partition": place.partition}


def _lag_shape(entry: PartitionLag) -> dict[str, object]:
    committed, member = entry.committed, entry.member
    return {
        **_place_shape(entry.place),
        "committed_offset": None if committed is None else committed.offset,
        "leader_epoch": None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch,
        "metadata": None if committed is None else committed.metadata,
        "start_offset": entry.start,
        "end_offset": entry.end,
        "lag": entry.lag,
        "lag_seconds": _seconds(entry.lag_ms),
        "member_id": None if member is None else member.member_id,
        "client_id": None if member is None else member.client_id,
        "host": None if member is None else _host(member),
    }
