"""Committed offsets behave like the list of what was written about them (C5, C6).

The model knows no state: it looks through the whole history each time. For a partition the last record in the
log counts that is not behind a deletion and whose transaction, if it has one, has committed.
"""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.coordinator.group.shard import GroupShard
from everlog.coordinator.machine import ProducerStamp
from everlog.model.errors import ErrorCode
from tests.unit.coordinator.group.groups import a_shard, committed, fetched, new_offset
from tests.unit.coordinator.worlds import Replies, World, a_topic

GROUPS = ("g", "h")
PARTITIONS = (0, 1)
PRODUCERS = (1, 2, 3)


@dataclass(frozen=True)
class Commit:
    group: str
    partition: int
    offset: int
    producer: int | None


@dataclass(frozen=True)
class End:
    producer: int
    commit: bool


@dataclass(frozen=True)
class Delete:
    group: str
    partition: int


@dataclass(frozen=True)
class DeleteGroup:
    group: str


Event = Commit | End | Delete | DeleteGroup

_groups, _partitions = st.sampled_from(GROUPS), st.sampled_from(PARTITIONS)
_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        Commit, _groups, _partitions, st.integers(0, 99), st.one_of(st.none(), st.sampled_from(PRODUCERS))
    ),
    st.builds(End, st.sampled_from(PRODUCERS), st.booleans()),
    st.builds(Delete, _groups, _partitions),
    st.builds(DeleteGroup, _groups),
)


def expected(history: list[Event], group: str, partition: int) -> tuple[int | None, bool]:
    """What is committed, and whether an open transaction may change it."""
    counts: int | None = None
    unstable = False
    for at, event in enumerate(history):
        if isinstance(event, Delete) and (event.group, event.partition) == (group, partition):
            # Of what only a transaction has written nothing can be deleted by name.
            if expected(history[:at], group, partition)[0] is not None:
                counts, unstable = None, False
        elif isinstance(event, DeleteGroup) and event.group == group:
            counts, unstable = None, False
        elif isinstance(event, Commit) and (event.group, event.partition) == (group, partition):
            end = _end_of(history, at, event.producer)
            if end is True:
                counts = event.offset
            unstable |= end is None
    return counts, unstable


def _end_of(history: list[Event], at: int, producer: int | None) -> bool | None:
    """How the transaction of the commit at this place ended: True if it counts, None while it is open."""
    if producer is None:
        return True
    for event in history[at + 1 :]:
        if isinstance(event, End) and event.producer == producer:
            return event.commit
    return None


def do(world: World, shard: GroupShard, event: Event) -> None:
    if isinstance(event, Commit):
        producer = None if event.producer is None else ProducerStamp(event.producer, 0)
        offset = new_offset(world, "orders", event.partition, event.offset)
        assert committed(shard, event.group, offset, producer=producer).only == [ErrorCode.NONE]
    elif isinstance(event, End):
        world.journal.mark(shard.machine, ProducerStamp(event.producer, 0), commit=event.commit)
    elif isinstance(event, Delete):
        replies: Replies[list[ErrorCode]] = Replies()
        shard.offsets.delete(event.group, [("orders", event.partition)], replies.append)
    else:
        ended: Replies[None] = Replies()
        shard.offsets.delete_group(event.group, ended.append)


@settings(max_examples=200, deadline=None)
@given(st.lists(_events, max_size=25))
def test_offsets_are_what_the_history_says_live_and_after_a_restart(events: list[Event]) -> None:
    world = World(a_topic("orders", 2))
    shard = a_shard(world)
    for event in events:
        do(world, shard, event)

    for one in (shard, a_shard(world)):
        for group in GROUPS:
            for partition in PARTITIONS:
                counts, unstable = expected(events, group, partition)
                found = fetched(one, group, partition=partition).committed
                assert (None if found is None else found.offset) == counts
                stable = fetched(one, group, partition=partition, stable=True).error
                assert stable == (ErrorCode.UNSTABLE_OFFSET_COMMIT if unstable else ErrorCode.NONE)
            has_any = any(expected(events, group, partition) != (None, False) for partition in PARTITIONS)
            assert one.offsets.knows(group) == has_any
