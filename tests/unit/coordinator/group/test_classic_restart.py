"""What a classic group is after a restart, or on the next coordinator: its records, and no more (C2)."""

from dataclasses import replace

import pytest

from everlog.coordinator.group.classic_commands import GroupProtocol
from everlog.coordinator.group.classic_group import ClassicGroup, State
from everlog.coordinator.group.group import CONSUMER, DescribedGroup, DescribedMember, Group, SimpleGroup
from everlog.coordinator.group.kinds import CLASSIC_GROUP
from everlog.coordinator.records import CoordinatorRecord, encode_body, encode_key
from everlog.model.errors import ErrorCode, StorageError
from everlog.sim.clock import MIDNIGHT
from everlog.wire.codec import encode_value
from everlog.wire.messages.group_metadata_record import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tests.unit.coordinator.group.classic_shard import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicShard,
)


def a_record(value: GroupMetadataValue | None, version: int = 3) -> tuple[bytes, bytes | None]:
    record = CoordinatorRecord(CLASSIC_GROUP, GroupMetadataKey(group=GROUP), value, version)
    return encode_key(record), encode_body(record)


def a_value(*members: MemberMetadata, generation: int = 7) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range" if members else None,
        leader=members[0].member_id if members else None,
        current_state_timestamp=MIDNIGHT,
        members=list(members),
    )


def a_member(member_id: str, rebalance_timeout: int = REBALANCE_MS) -> MemberMetadata:
    return MemberMetadata(
        member_id=member_id,
        client_id="c",
        client_host="/192.0.2.7",
        rebalance_timeout=rebalance_timeout,
        session_timeout=SESSION_MS,
        subscription=b"topics",
        assignment=member_id.encode(),
    )


def test_a_stable_group_is_written_as_kafka_writes_it() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()

    ((key, value),) = shard.journal.records

    # Type 2 and the group's name; version 3 of the value.
    assert key == b"\0\2" + b"\0\1g"
    expected = a_value(a_member(member), generation=1)
    expected.current_state_timestamp = shard.clock.wall()
    assert value == b"\0\3" + encode_value(expected, 3)


def test_after_a_restart_a_stable_group_has_its_generation_members_and_assignments() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)
    before = shard.group.describe()

    shard.restart()

    assert shard.group.describe() == before
    assert (shard.group.generation, shard.group.members.leader) == (1, first)
    assert shard.heartbeat(first, 1) is ErrorCode.NONE
    assert shard.heartbeat(second, 1) is ErrorCode.NONE
    assert shard.sync(second, 1).answer.assignment == second.encode()


def test_after_a_restart_sessions_begin_anew() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)
    shard.pass_time(SESSION_MS - 1)
    shard.load()
    shard.clock.advance(10 * SESSION_MS)
    shard.shard.machine.loaded()
    shard.shard.activated(shard.now)

    shard.pass_time(SESSION_MS - 1)
    assert shard.heartbeat(first, 1) is ErrorCode.NONE
    shard.pass_time(1)

    assert shard.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_after_a_restart_members_join_again_with_all_that_they_know() -> None:
    shard = ClassicShard()
    first, second = shard.stable(2)
    shard.restart()
    more = (GroupProtocol("sticky", b"s"), GroupProtocol("range", b"topics"))

    rejoins = [shard.join(first, protocols=more), shard.join(second, protocols=more)]

    assert [asked.answer.protocol for asked in rejoins] == ["sticky", "sticky"]


def test_a_generation_without_an_assignment_is_forgotten_by_a_restart() -> None:
    shard = ClassicShard()
    (first,) = shard.stable()
    newcomer = shard.join(needs_member_id=False)
    shard.join(first)
    assert newcomer.answer.generation == 2

    shard.restart()

    assert shard.heartbeat(first, 2) is ErrorCode.ILLEGAL_GENERATION
    assert shard.heartbeat(newcomer.answer.member_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(first, 1) is ErrorCode.NONE


def test_an_empty_group_keeps_its_generation_and_since_when_over_a_restart() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shard.leave(member)
    since = shard.group.empty_since
    assert since == shard.clock.wall()

    shard.pass_time(1_000)
    shard.restart()

    assert (shard.group.state, shard.group.generation) == (State.EMPTY, 2)
    assert shard.group.empty_since == since
    assert shard.group.protocol_type == "consumer"


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_records_of_every_version_that_kafka_has_written_are_read(version: int) -> None:
    shard = ClassicShard()
    shard.journal.records.append(a_record(a_value(a_member("m")), version))

    shard.restart()

    member = shard.group.members.get("m")
    assert member is not None
    assert member.rebalance_timeout_ms == (REBALANCE_MS if version else SESSION_MS)
    assert shard.heartbeat("m", 7) is ErrorCode.NONE
    assert shard.group.empty_since is None


def test_an_empty_group_of_an_old_record_does_not_know_since_when() -> None:
    shard = ClassicShard()
    shard.journal.records.append(a_record(a_value(), 1))

    shard.restart()

    assert shard.group.state is State.EMPTY
    assert shard.group.empty_since is None


def test_later_records_replace_what_earlier_ones_said() -> None:
    shard = ClassicShard()
    shard.journal.records += [
        a_record(a_value(a_member("m"), a_member("n"))),
        a_record(a_value(a_member("n"), generation=8)),
    ]

    shard.restart()

    assert [one.id for one in shard.group.members] == ["n"]
    assert (shard.group.members.leader, shard.group.generation) == ("n", 8)


def test_a_member_that_stayed_over_a_change_of_protocol_has_what_the_last_record_says() -> None:
    shard = ClassicShard()
    sticky, later = a_value(a_member("m")), a_value(a_member("m", 5), generation=8)
    sticky.protocol = "sticky"
    shard.journal.records += [a_record(sticky), a_record(later)]

    shard.restart()

    (member,) = shard.group.members
    assert member.protocols == (GroupProtocol("range", b"topics"),)
    assert member.rebalance_timeout_ms == 5
    assert shard.join("m").answer.members[0].metadata == b"topics"


def test_the_leader_is_the_one_that_the_record_names() -> None:
    shard = ClassicShard()
    value = a_value(a_member("m"), a_member("n"))
    value.leader = "n"
    shard.journal.records.append(a_record(value))

    shard.restart()

    assert shard.group.members.leader == "n"


def test_a_tombstone_removes_the_group() -> None:
    shard = ClassicShard()
    shard.journal.records += [a_record(a_value(a_member("m"))), a_record(None)]

    shard.restart()

    assert shard.found() is None


def test_a_group_is_removed_by_its_own_tombstones() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shard.leave(member)
    tombstones = shard.group.tombstones()
    assert [(encode_key(one), encode_body(one)) for one in tombstones] == [a_record(None)]

    for one in tombstones:
        shard.shard.classic.apply(one)

    assert shard.found() is None
    shard.take_id()
    assert shard.group.tombstones() == (), "the log knows nothing of it"


def test_a_group_that_is_removed_lets_go_of_all_who_want_something_of_it() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shard.take_id()
    parked = shard.join(member)
    tombstones = shard.group.tombstones()

    for one in tombstones:
        shard.shard.classic.apply(one)

    # It becomes a consumer group, and its members are to join that.
    assert parked.answer.error is ErrorCode.REBALANCE_IN_PROGRESS
    shard.pass_time(10 * REBALANCE_MS)
    assert shard.found() is None


def test_a_coordinator_that_reads_its_log_refuses_all() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()

    shard.load()

    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert shard.join().answer.error is loading
    assert shard.sync(member, 1).answer.error is loading
    assert shard.heartbeat(member, 1) is loading
    assert shard.leave(member).answer.error is loading
    shard.pass_time(10 * SESSION_MS)
    assert shard.group.state is State.STABLE


def test_a_coordinator_that_is_none_any_more_sends_all_who_wait_away() -> None:
    shard = ClassicShard()
    first, second = shard.completing(2)
    waiting = shard.sync(second, 1)
    parked = shard.join(group_id="other", needs_member_id=False)
    shard.journal.holds = True
    leader = shard.sync(first, 1, (second, b"two"))

    shard.shard.close()

    gone = ErrorCode.NOT_COORDINATOR
    assert waiting.answer.error is parked.answer.error is leader.answer.error is gone
    shard.journal.commit(StorageError("led from elsewhere"))
    assert shard.join().answer.error is gone
    assert shard.heartbeat(first, 1) is gone
    assert shard.leave(first).answer.error is gone
    assert shard.shard.classic.deadline() is None


def test_joins_that_are_parked_are_sent_away_too() -> None:
    shard = ClassicShard()
    shard.preparing(2)

    shard.shard.close()

    assert [one.answer.error for one in shard.parked] == [ErrorCode.NOT_COORDINATOR] * 2


def test_a_group_that_is_described_shows_what_members_say_while_it_is_stable() -> None:
    shard = ClassicShard()
    (member,) = shard.stable()
    shown = DescribedMember(member, None, "c", "/192.0.2.7", b"topics", member.encode())

    assert shard.group.describe() == DescribedGroup("Stable", "consumer", "range", (shown,))
    shard.take_id()
    rejoin = shard.join(member)
    assert rejoin.is_open

    quiet = replace(shown, metadata=b"")
    assert shard.group.describe() == DescribedGroup("PreparingRebalance", "consumer", "", (quiet,))


class AnotherGroup(SimpleGroup):
    """A group of the other type, which its tombstones remove."""

    type = CONSUMER

    def __init__(self, shard: ClassicShard, *, is_empty: bool) -> None:
        super().__init__(GROUP)
        self.is_empty = is_empty
        self._shard = shard

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        if not self._shard.journal.fails:
            self._shard.shard.groups.remove(GROUP)
        return (CoordinatorRecord(CLASSIC_GROUP, GroupMetadataKey(group=GROUP), None),)


def test_an_empty_group_of_the_other_type_gives_way() -> None:
    shard = ClassicShard()
    other: Group = AnotherGroup(shard, is_empty=True)
    shard.shard.groups.put(other)
    assert shard.join("stranger").answer.error is ErrorCode.UNKNOWN_MEMBER_ID

    joined = shard.join(shard.take_id())
    shard.pass_time(INITIAL_DELAY_MS)

    assert joined.answer.error is ErrorCode.NONE
    assert isinstance(shard.shard.groups.get(GROUP), ClassicGroup)
    assert shard.journal.records == [a_record(None)]


def test_a_group_of_the_other_type_stays_if_it_cannot_be_removed_or_has_members() -> None:
    shard = ClassicShard()
    shard.shard.groups.put(AnotherGroup(shard, is_empty=False))
    assert shard.join().answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shard.sync("m", 1).answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.left("m") == [ErrorCode.UNKNOWN_MEMBER_ID]

    shard.shard.groups.put(AnotherGroup(shard, is_empty=True))
    shard.journal.fails = True

    assert shard.join().answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert isinstance(shard.shard.groups.get(GROUP), AnotherGroup)
