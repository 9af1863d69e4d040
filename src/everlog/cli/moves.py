"""Moves of partitions as commands carry them out: throttled, watched until they are done, and led well."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from everlog.cli.cluster_facts import describe_brokers, directories, replica_sizes
from everlog.cli.output import Block, Fields, Line, Table
from everlog.cli.progress import Progress
from everlog.cli.shapes import counted, size_text
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.reassign_plan import PartitionMove, ReassignPlan
from everlog.client.core.admin.throttles import no_throttle_settings, throttle_settings
from everlog.client.core.errors import TimedOut
from everlog.client.sync.admin import Admin
from everlog.model.errors import Refused
from everlog.model.topics import TopicPartition

POLL_SECONDS = 0.5
_SHOWN = 40
THEY_GO_ON = (
    "the moves go on, as slow as they were asked to be; `everlog cluster reassign --watch` follows them to "
    "their end and takes the throttle away, --cancel calls them off"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is now."""

    replicas: Mapping[TopicPartition, Sequence[int]]
    leaders: Mapping[TopicPartition, int]
    sizes: Mapping[TopicPartition, int]
    """Of one replica in bytes, the leader's where there is one."""
    racks: Mapping[int, str | None]
    """Of brokers that can take replicas."""
    fenced: frozenset[int]


def layout_of(admin: Admin, topics: Iterable[str] | None = None) -> Layout:
    """The partitions of some topics or of all, and the brokers; Refused names a topic that is not there."""
    cluster = describe_brokers(admin)
    described = admin.describe_topics(topics)
    partitions = {
        TopicPartition(name, index): partition
        for name, topic in described.items()
        for index, partition in topic.partitions.items()
    }
    found = replica_sizes(directories(admin, cluster)[0])
    sizes = {
        place: found.get(place, {}).get(partition.leader, max(found.get(place, {}).values(), default=0))
        for place, partition in partitions.items()
    }
    return Layout(
        {place: tuple(partition.replicas) for place, partition in partitions.items()},
        {place: partition.leader for place, partition in partitions.items()},
        sizes,
        {broker.node_id: broker.rack for broker in cluster.brokers if broker.node_id not in cluster.fenced},
        cluster.fenced,
    )


def set_throttle(
    admin: Admin, plan: ReassignPlan, bytes_per_second: int | None, brokers: Collection[int]
) -> None:
    """Slow the plan's moves down, if a rate is given, until `remove_throttles`."""
    if bytes_per_second is None:
        return
    involved = [broker for broker in plan.brokers() if broker in brokers]
    settings = throttle_settings(plan.moves, bytes_per_second, involved)
    try:
        admin.alter_configs(settings)
    except ItemsRefused as error:
        # Half a throttle is none: what was set goes again, and nothing is moved.
        admin.alter_configs({resource: dict.fromkeys(settings[resource]) for resource in error.done})
        raise


def remove_throttles(admin: Admin, places: Iterable[TopicPartition], brokers: Iterable[int]) -> None:
    """Take away whatever throttle moves of these partitions have, also one that another tool has set."""
    admin.alter_configs(no_throttle_settings({place.topic for place in places}, brokers))


def begin(admin: Admin, plan: ReassignPlan) -> dict[TopicPartition, Refused]:
    """Set the moves going; what was refused is returned, the rest is under way."""
    try:
        admin.alter_partition_reassignments({move.place: list(move.after) for move in plan.moves})
    except ItemsRefused as error:
        return error.errors
    return {}


def watch(admin: Admin, moves: Sequence[PartitionMove], limit_s: float | None = None) -> None:
    """Wait until none of these partitions moves any more, with a bar for whoever looks; TimedOut at a limit.

    The moves go on whether somebody watches or not.
    """
    places = [move.place for move in moves]
    adding = {broker for move in moves for broker in move.adding}
    total = sum(move.bytes_to_move for move in moves)
    # What is there already counts for nothing: a bar that begins in the middle would show a wrong rate.
    # Unless all of it is: a bar of nothing would never be full.
    found = _copied(admin, moves, set(places), adding)
    done = found if found < total else 0
    began = time.monotonic()
    with Progress("moving", total - done, "B") as progress:
        while moving := admin.list_partition_reassignments(places) if places else {}:
            copied = _copied(admin, moves, set(moving), adding)
            progress.step(max(0, copied - done))
            done = max(done, copied)
            if limit_s is not None and time.monotonic() - began >= limit_s:
                raise TimedOut(
                    f"{counted(len(moving), 'partition')} still moving after {limit_s:g} s, expected none: "
                    f"{THEY_GO_ON}"
                )
            time.sleep(POLL_SECONDS)
        progress.step(max(0, total - done))


def _copied(
    admin: Admin, moves: Sequence[PartitionMove], moving: set[TopicPartition], adding: set[int]
) -> int:
    """How many bytes of the plan are where they belong by now."""
    sizes: dict[TopicPartition, dict[int, int]] = {}
    if moving and adding:
        sizes = replica_sizes(admin.describe_log_dirs(sorted(adding), sorted(moving)))
    copied = 0
    for move in moves:
        if move.place not in moving:
            copied += move.bytes_to_move
        else:
            there = sizes.get(move.place, {})
            copied += sum(min(move.size_bytes, there.get(broker, 0)) for broker in move.adding)
    return copied


def lead_well(admin: Admin, plan: ReassignPlan, failed: Mapping[TopicPartition, Refused]) -> list[str]:
    """Give the moved partitions their preferred leaders; returns in words why some could not have them."""
    places = [move.place for move in plan.moves if move.place not in failed]
    if not places:
        return []
    try:
        admin.elect_leaders(places)
    except ItemsRefused as error:
        return [str(each) for each in error.errors.values()]
    return []


def plan_blocks(plan: ReassignPlan, leaders: Mapping[TopicPartition, int]) -> list[Block]:
    """A plan as people look at it before they say yes."""
    if not plan.moves:
        return [Line("nothing to move: all replicas are where they should be")]
    rows = [
        (
            str(move.place),
            leaders.get(move.place),
            ",".join(map(str, move.before)),
            ",".join(map(str, move.after)),
            size_text(move.bytes_to_move) if move.adding else "order only",
        )
        for move in plan.moves[:_SHOWN]
    ]
    blocks: list[Block] = [Table(("PARTITION", "LEADER", "FROM", "TO", "TO COPY"), rows)]
    if len(plan.moves) > _SHOWN:
        blocks.append(Line(f"… and {len(plan.moves) - _SHOWN} more: --dry-run --json has all of them"))
    incoming = {broker: 0 for move in plan.moves for broker in move.adding}
    for move in plan.moves:
        for broker in move.adding:
            incoming[broker] += move.size_bytes
    by_broker = ", ".join(
        f"{size_text(size)} to broker {broker}" for broker, size in sorted(incoming.items())
    )
    blocks.append(
        Fields(
            [
                ("partitions", len(plan.moves)),
                ("replicas to copy", plan.replicas_to_move),
                ("bytes to copy", f"{size_text(plan.bytes_to_move)}{f' ({by_broker})' if by_broker else ''}"),
            ]
        )
    )
    return blocks


def move_shape(move: PartitionMove) -> dict[str, object]:
    """One move as JSON shows it."""
    return {
        "topic": move.place.topic,
        "partition": move.place.partition,
        "from": list(move.before),
        "to": list(move.after),
        "adding": move.adding,
        "removing": move.removing,
        "bytes_to_move": move.bytes_to_move,
    }
