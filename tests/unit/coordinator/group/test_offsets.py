"""Offsets are committed, fetched and deleted; they survive a restart and obey transactions (C5, C6)."""

import pytest

from everlog.coordinator.group.offsets import Fetched, FetchOffsets
from everlog.coordinator.group.shard import GroupShard
from everlog.coordinator.machine import Decision, ProducerStamp
from everlog.coordinator.records import CoordinatorRecord
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, Uuid
from everlog.sim.clock import MIDNIGHT
from everlog.wire.messages.legacy_offset_commit_record import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from tests.unit.coordinator.group.groups import (
    MadeUpGroup,
    a_shard,
    committed,
    fetched,
    new_offset,
    offset_of,
)
from tests.unit.coordinator.worlds import Replies, World, a_topic, an_image

NONE = ErrorCode.NONE
FIRST, SECOND = ProducerStamp(1, 0), ProducerStamp(2, 0)


@pytest.fixture
def world() -> World:
    return World(a_topic("orders", 4), a_topic("refunds", 4))


def deleted(shard: GroupShard, group: str, *places: tuple[str, int]) -> Replies[list[ErrorCode]]:
    replies: Replies[list[ErrorCode]] = Replies()
    shard.offsets.delete(group, places, replies.append)
    return replies


def group_deleted(shard: GroupShard, group: str) -> Replies[None]:
    replies: Replies[None] = Replies()
    shard.offsets.delete_group(group, replies.append)
    return replies


def all_fetched(shard: GroupShard, group: str, *, stable: bool = False) -> list[Fetched]:
    replies: Replies[list[Fetched]] = Replies()
    shard.offsets.fetch(FetchOffsets(group, None, require_stable=stable), replies.append)
    return replies.only


# --- commit and fetch


def test_what_was_committed_is_fetched_with_all_that_was_said(world: World) -> None:
    shard = a_shard(world)

    codes = committed(shard, "g", new_offset(world, "orders", 2, 17, "note", leader_epoch=5)).only

    found = fetched(shard, "g", "orders", 2).committed
    assert codes == [NONE]
    assert found is not None
    assert (found.offset, found.metadata, found.leader_epoch) == (17, "note", 5)
    assert found.commit_timestamp == MIDNIGHT
    assert found.topic_id == world.image.topics["orders"].id


def test_a_restart_finds_the_same_offsets(world: World) -> None:
    shard = a_shard(world)
    for offset in (3, 9):
        committed(shard, "g", new_offset(world, "orders", 0, offset, "note", leader_epoch=offset))
    committed(shard, "other", new_offset(world, "refunds", 3, 1), retention_ms=1000)

    again = a_shard(world)

    assert again.offsets.store.of_group("g") == shard.offsets.store.of_group("g")
    assert offset_of(again, "g") == 9
    assert offset_of(again, "other", "refunds", 3) == 1
    assert list(again.offsets.store.group_ids()) == ["g", "other"]


def test_a_partition_without_a_commit_has_none_and_that_is_no_error(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3))

    assert fetched(shard, "g", "orders", 1) == ("orders", 1, None, NONE)
    assert fetched(shard, "nobody") == ("orders", 0, None, NONE)


def test_a_fetch_of_all_names_every_commit_of_the_group_and_no_other(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3), new_offset(world, "refunds", 1, 4))
    committed(shard, "h", new_offset(world, "orders", 2, 5))

    assert [(one.topic, one.partition) for one in all_fetched(shard, "g")] == [("orders", 0), ("refunds", 1)]
    assert all_fetched(shard, "nobody") == []


def test_a_commit_from_outside_makes_an_empty_group_that_no_record_tells_of(world: World) -> None:
    shard = a_shard(world)

    committed(shard, "g", new_offset(world, "orders", 0, 3))

    group = shard.group("g")
    assert group is not None
    assert (group.state, group.type, group.is_empty, group.protocol_type) == ("Empty", "classic", True, "")
    assert world.journal.record_count == 1
    assert [one.id for one in shard.all_groups()] == ["g"]


def test_a_member_of_a_group_that_is_not_there_is_refused(world: World) -> None:
    shard = a_shard(world)
    offset = new_offset(world, "orders", 0, 3)

    old = committed(shard, "g", offset, member_id="m", epoch=1, api_version=8).refused
    new = committed(shard, "g", offset, member_id="m", epoch=1, api_version=9).refused

    assert (old.code, new.code) == (ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_ID_NOT_FOUND)
    assert world.journal.record_count == 0


def test_a_member_is_refused_by_a_group_of_offsets_alone(world: World) -> None:
    shard = a_shard(world)
    offset = new_offset(world, "orders", 0, 3)
    committed(shard, "g", offset)

    named = committed(shard, "g", offset, member_id="m", epoch=1).refused
    nameless = committed(shard, "g", offset, epoch=0).refused

    assert (named.code, nameless.code) == (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID)


def test_the_group_decides_who_commits_and_hears_from_who_did(world: World) -> None:
    shard = a_shard(world)
    group = MadeUpGroup("g", members=("m",))
    shard.groups.put(group)
    offset = new_offset(world, "orders", 0, 3)

    assert committed(shard, "g", offset, member_id="m", epoch=1).only == [NONE]
    group.refusal = Refused(ErrorCode.ILLEGAL_GENERATION, "over")
    refused = committed(shard, "g", offset, member_id="m", epoch=0).refused

    assert refused.code is ErrorCode.ILLEGAL_GENERATION
    assert group.heard == ["m"]
    assert world.journal.record_count == 1


def test_one_partition_that_the_group_refuses_does_not_fail_the_others(world: World) -> None:
    shard = a_shard(world)
    group = MadeUpGroup("g", members=("m",))
    shard.groups.put(group)

    def only_partition_0(_topic_id: Uuid, partition: int) -> None:
        if partition:
            raise Refused(ErrorCode.STALE_MEMBER_EPOCH, "not yours")

    group.partition_check = only_partition_0
    offsets = [new_offset(world, "orders", partition, 7) for partition in (0, 1)]

    codes = committed(shard, "g", *offsets, member_id="m", epoch=1).only

    assert codes == [NONE, ErrorCode.STALE_MEMBER_EPOCH]
    assert (offset_of(shard, "g"), offset_of(shard, "g", partition=1)) == (7, None)


def test_metadata_may_be_as_long_as_the_setting_says(world: World) -> None:
    shard = a_shard(world)
    fits, does_not = "x" * 4096, "x" * 4097

    codes = committed(
        shard,
        "g",
        new_offset(world, "orders", 0, 1, fits),
        new_offset(world, "orders", 1, 1, does_not),
    ).only

    assert codes == [NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert offset_of(shard, "g", partition=1) is None


def test_the_group_decides_who_fetches(world: World) -> None:
    shard = a_shard(world)
    group = MadeUpGroup("g", members=("m",))
    group.refusal = Refused(ErrorCode.STALE_MEMBER_EPOCH, "over")
    shard.groups.put(group)
    replies: Replies[list[Fetched]] = Replies()

    shard.offsets.fetch(FetchOffsets("g", (("orders", 0),), "m", 3), replies.append)

    assert replies.refused.code is ErrorCode.STALE_MEMBER_EPOCH


def test_a_fetch_does_not_tell_of_a_commit_that_may_yet_be_lost(world: World) -> None:
    shard = a_shard(world)
    world.journal.holds = True
    committed(shard, "g", new_offset(world, "orders", 0, 3))
    replies: Replies[list[Fetched]] = Replies()

    shard.offsets.fetch(FetchOffsets("g", (("orders", 0),)), replies.append)

    assert replies == []
    world.journal.settle()
    assert replies.only[0].committed is not None


def test_records_of_the_first_format_count_too(world: World) -> None:
    shard = a_shard(world)
    key = LegacyOffsetCommitKey(group="g", topic="orders", partition=0)
    value = LegacyOffsetCommitValue(offset=4, metadata="old", commit_timestamp=12)
    ignore: Replies[None] = Replies()
    shard.machine.run(lambda: Decision((CoordinatorRecord(0, key, value),), None), ignore.append)

    found = fetched(a_shard(world), "g").committed

    assert found is not None
    assert (found.offset, found.metadata, found.topic_id) == (4, "old", NO_UUID)


# --- transactions


def test_offsets_of_a_transaction_count_once_it_commits(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3))

    committed(shard, "g", new_offset(world, "orders", 0, 8), producer=FIRST)
    assert offset_of(shard, "g") == 3
    world.journal.mark(shard.machine, FIRST, commit=True)

    assert offset_of(shard, "g") == 8
    assert offset_of(a_shard(world), "g") == 8


def test_offsets_of_an_aborted_transaction_never_count(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3))
    committed(shard, "g", new_offset(world, "orders", 0, 8), producer=FIRST)

    world.journal.mark(shard.machine, FIRST, commit=False)

    assert offset_of(shard, "g") == 3
    again = a_shard(world)
    assert offset_of(again, "g") == 3
    assert fetched(again, "g", stable=True).error is NONE


def test_a_marker_of_a_raised_epoch_ends_the_transaction_too(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 8), producer=FIRST)

    world.journal.mark(shard.machine, ProducerStamp(FIRST.producer_id, FIRST.epoch + 1), commit=True)

    assert offset_of(shard, "g") == 8


def test_an_open_transaction_makes_its_partitions_unstable_and_no_others(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", *(new_offset(world, "orders", partition, 3) for partition in (0, 1)))
    committed(shard, "g", new_offset(world, "orders", 0, 8), producer=FIRST)

    for one in (shard, a_shard(world)):
        assert fetched(one, "g", stable=True) == ("orders", 0, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert offset_of(one, "g") == 3
        assert fetched(one, "g", partition=1, stable=True).error is NONE
        assert fetched(one, "other", stable=True).error is NONE
        errors = [found.error for found in all_fetched(one, "g", stable=True)]
        assert errors == [ErrorCode.UNSTABLE_OFFSET_COMMIT, NONE]


def test_a_partition_stays_unstable_until_the_last_transaction_on_it_is_over(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 8), producer=FIRST)
    committed(shard, "g", new_offset(world, "orders", 0, 9), producer=SECOND)

    world.journal.mark(shard.machine, FIRST, commit=True)
    assert fetched(shard, "g", stable=True).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.journal.mark(shard.machine, SECOND, commit=False)

    assert fetched(shard, "g", stable=True).error is NONE
    assert offset_of(shard, "g") == 8


def test_of_two_commits_the_later_in_the_log_counts_whichever_marker_came_first(world: World) -> None:
    """KAFKA-5247."""
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 10), producer=FIRST)
    committed(shard, "g", new_offset(world, "orders", 0, 20), producer=SECOND)

    world.journal.mark(shard.machine, SECOND, commit=True)
    world.journal.mark(shard.machine, FIRST, commit=True)

    assert offset_of(shard, "g") == 20
    assert offset_of(a_shard(world), "g") == 20


def test_a_commit_outside_the_transaction_that_came_later_stands(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 10), producer=FIRST)
    committed(shard, "g", new_offset(world, "orders", 0, 15))

    world.journal.mark(shard.machine, FIRST, commit=True)

    assert offset_of(shard, "g") == 15
    assert offset_of(a_shard(world), "g") == 15


def test_the_last_commit_of_a_transaction_is_the_one_that_counts(world: World) -> None:
    shard = a_shard(world)
    for offset in (4, 6, 5):
        committed(shard, "g", new_offset(world, "orders", 0, offset), producer=FIRST)

    world.journal.mark(shard.machine, FIRST, commit=True)

    assert offset_of(shard, "g") == 5


def test_a_member_of_an_old_generation_cannot_commit_in_a_transaction(world: World) -> None:
    """KIP-447; producers know ILLEGAL_GENERATION where consumers know STALE_MEMBER_EPOCH."""
    shard = a_shard(world)
    group = MadeUpGroup("g", members=("m",))
    shard.groups.put(group)
    offset = new_offset(world, "orders", 0, 3)

    assert committed(shard, "g", offset, member_id="m", epoch=2, producer=FIRST).only == [NONE]
    group.refusal = Refused(ErrorCode.STALE_MEMBER_EPOCH, "over")
    stale = committed(shard, "g", offset, member_id="m", epoch=1, producer=FIRST).refused
    nobody = committed(shard, "none", offset, member_id="m", epoch=1, producer=FIRST).refused

    assert (stale.code, nobody.code) == (ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION)
    assert group.heard == []
    assert world.journal.record_count == 1


def test_a_group_is_known_while_only_a_transaction_speaks_of_it(world: World) -> None:
    shard = a_shard(world)

    committed(shard, "g", new_offset(world, "orders", 0, 3), producer=FIRST)
    assert [group.id for group in shard.all_groups()] == ["g"]
    assert shard.group("g") is not None
    world.journal.mark(shard.machine, FIRST, commit=False)

    assert shard.all_groups() == []


# --- deletion


def test_a_deleted_offset_is_gone_after_a_restart_too(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", *(new_offset(world, "orders", partition, 3) for partition in (0, 1)))

    assert deleted(shard, "g", ("orders", 0), ("orders", 3)).only == [NONE, NONE]

    for one in (shard, a_shard(world)):
        assert (offset_of(one, "g"), offset_of(one, "g", partition=1)) == (None, 3)


def test_offsets_of_a_topic_that_members_read_stay(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3), new_offset(world, "refunds", 0, 4))
    shard.groups.put(MadeUpGroup("g", members=("m",), topics=("orders",)))

    codes = deleted(shard, "g", ("orders", 0), ("refunds", 0)).only

    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE]
    assert (offset_of(shard, "g"), offset_of(shard, "g", "refunds")) == (3, None)


def test_offsets_of_members_that_do_not_consume_stay(world: World) -> None:
    shard = a_shard(world)
    group = MadeUpGroup("connect", members=("m",))
    group.protocol_type = "connect"
    shard.groups.put(group)

    assert deleted(shard, "connect", ("orders", 0)).refused.code is ErrorCode.NON_EMPTY_GROUP
    assert deleted(shard, "nobody", ("orders", 0)).refused.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_deleting_an_offset_takes_what_a_transaction_had_written_before(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3))
    committed(shard, "g", new_offset(world, "orders", 0, 8), producer=FIRST)
    deleted(shard, "g", ("orders", 0))
    committed(shard, "g", new_offset(world, "orders", 1, 9), producer=FIRST)

    world.journal.mark(shard.machine, FIRST, commit=True)

    for one in (shard, a_shard(world)):
        assert (offset_of(one, "g"), offset_of(one, "g", partition=1)) == (None, 9)


def test_a_deleted_group_leaves_nothing_behind(world: World) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3), new_offset(world, "refunds", 0, 4))
    committed(shard, "g", new_offset(world, "orders", 1, 8), producer=FIRST)
    shard.groups.put(MadeUpGroup("g"))

    assert group_deleted(shard, "g") == [None]
    world.journal.mark(shard.machine, FIRST, commit=True)

    for one in (shard, a_shard(world)):
        assert not one.offsets.knows("g")
    keys = [key[:2] for batch in world.journal.batches[-2:] for key, value in batch.records if value is None]
    assert keys == [b"\x00\x01"] * 3 + [b"\x00\x02"]


def test_a_group_with_members_or_none_at_all_is_not_deleted(world: World) -> None:
    shard = a_shard(world)
    shard.groups.put(MadeUpGroup("g", members=("m",)))
    committed(shard, "g", new_offset(world, "orders", 0, 3))

    assert group_deleted(shard, "g").refused.code is ErrorCode.NON_EMPTY_GROUP
    assert group_deleted(shard, "nobody").refused.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert offset_of(shard, "g") == 3


def test_a_group_of_very_many_offsets_is_deleted_in_several_batches() -> None:
    world = World(a_topic("orders", 2500))
    shard = a_shard(world)
    committed(shard, "g", *(new_offset(world, "orders", partition, 1) for partition in range(2500)))

    assert group_deleted(shard, "g") == [None]

    sizes = [len(batch.records) for batch in world.journal.batches[1:]]
    assert sum(sizes) == 2500
    assert max(sizes) == 1000
    assert not a_shard(world).offsets.knows("g")


# --- topics that go


def test_offsets_of_a_deleted_topic_go_with_it(world: World) -> None:
    shard = a_shard(world)
    for group in ("g", "h"):
        committed(shard, group, new_offset(world, "orders", 0, 3), new_offset(world, "refunds", 0, 4))
    committed(shard, "i", new_offset(world, "orders", 0, 8), producer=FIRST)
    orders = world.image.topics["orders"]

    shard.image_changed(world.delete_topic("orders"))
    world.journal.mark(shard.machine, FIRST, commit=True)
    world.image = an_image(orders, *world.image.topics.values())

    for one in (shard, a_shard(world)):
        assert [offset_of(one, group) for group in ("g", "h", "i")] == [None, None, None]
        assert [offset_of(one, group, "refunds") for group in ("g", "h")] == [4, 4]


def test_a_topic_made_anew_under_the_same_name_has_no_offsets_even_if_nobody_took_them_back(
    world: World,
) -> None:
    shard = a_shard(world)
    committed(shard, "g", new_offset(world, "orders", 0, 3))

    world.image = an_image(a_topic("orders", 4, Uuid(b"n" * 16)))

    for one in (shard, a_shard(world)):
        assert offset_of(one, "g") is None
        assert all_fetched(one, "g") == []
    committed(shard, "g", new_offset(world, "orders", 0, 1))
    assert offset_of(a_shard(world), "g") == 1


def test_deleting_a_topic_leaves_the_offsets_of_its_successor(world: World) -> None:
    shard = a_shard(world)
    old = world.delete_topic("orders")
    world.image = an_image(a_topic("orders", 4, Uuid(b"n" * 16)))
    committed(shard, "g", new_offset(world, "orders", 0, 1))

    shard.image_changed(old)

    assert offset_of(shard, "g") == 1
