"""Decide, log, apply, reply (C2, C5, P5): in this order, live and in replay alike."""

from typing import Any

import pytest

from everlog.coordinator.machine import Decision, Machine, Phase, ProducerStamp
from everlog.coordinator.records import CoordinatorRecord, RecordKind
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.model.ids import Offset
from everlog.sim.clock import MIDNIGHT
from everlog.wire.messages.offset_commit_record import OffsetCommitKey, OffsetCommitValue
from tests.unit.coordinator.worlds import MemoryJournal, Replies

KINDS = {1: RecordKind(OffsetCommitKey, OffsetCommitValue, 4)}
PRODUCER = ProducerStamp(7, 3)


class Applied:
    """A state that only remembers what it was told."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def apply(self, record: CoordinatorRecord, offset: Offset, producer: ProducerStamp | None) -> None:
        key, value = record.key, record.value
        assert isinstance(key, OffsetCommitKey)
        shown = None if value is None else getattr(value, "offset", None)
        self.seen.append((offset, key.partition, shown, producer))

    def end_transaction(self, producer: ProducerStamp, commit: bool) -> None:
        self.seen.append((producer, commit))


def a_record(partition: int, offset: int | None) -> CoordinatorRecord:
    value = None if offset is None else OffsetCommitValue(offset=offset)
    return CoordinatorRecord(1, OffsetCommitKey(group="g", topic="t", partition=partition), value, 3)


def a_machine(journal: MemoryJournal | None = None) -> tuple[Machine, Applied, MemoryJournal]:
    state, kept = Applied(), journal or MemoryJournal()
    machine = Machine(KINDS, state, kept, lambda: MIDNIGHT, 0)
    kept.replay_into(machine)
    return machine, state, kept


def test_records_are_applied_with_their_offsets_before_the_reply_leaves() -> None:
    machine, state, _ = a_machine()
    seen_at_reply: list[Any] = []

    machine.run(
        lambda: Decision((a_record(0, 5), a_record(1, 6)), "yes"), lambda _: seen_at_reply.extend(state.seen)
    )

    assert seen_at_reply == [(0, 0, 5, None), (1, 1, 6, None)]


def test_a_reply_leaves_once_its_records_are_committed_and_no_earlier() -> None:
    machine, state, journal = a_machine()
    journal.holds = True
    replies: Replies[str] = Replies()

    machine.run(lambda: Decision((a_record(0, 5),), "yes"), replies.append)

    assert state.seen
    assert replies == []
    journal.settle()
    assert replies == ["yes"]


def test_a_reply_without_records_waits_for_those_it_may_rest_on() -> None:
    machine, _, journal = a_machine()
    journal.holds = True
    replies: Replies[str] = Replies()

    machine.run(lambda: Decision((a_record(0, 5),), "written"), replies.append)
    machine.run(lambda: Decision((), "read"), replies.append)

    assert replies == []
    journal.settle()
    assert replies == ["written", "read"]


def test_a_refusal_waits_as_well() -> None:
    machine, _, journal = a_machine()
    journal.holds = True
    replies: Replies[str] = Replies()

    def refuse() -> Decision[str]:
        raise Refused(ErrorCode.ILLEGAL_GENERATION, "no")

    machine.run(lambda: Decision((a_record(0, 5),), "written"), replies.append)
    machine.run(refuse, replies.append)
    assert replies == []
    journal.settle()

    assert replies[0] == "written"
    assert isinstance(replies[1], Refused)


def test_a_batch_that_cannot_be_written_changes_nothing_and_its_reply_says_so() -> None:
    machine, state, journal = a_machine()
    journal.refusal = StorageError("full")
    replies: Replies[str] = Replies()

    machine.run(lambda: Decision((a_record(0, 5),), "yes"), replies.append)

    assert replies == [journal.refusal]
    assert state.seen == []


def test_a_batch_that_is_never_committed_answers_with_the_error() -> None:
    machine, _, journal = a_machine()
    journal.holds = True
    replies: Replies[str] = Replies()
    machine.run(lambda: Decision((a_record(0, 5),), "yes"), replies.append)

    error = StorageError("fsync failed")
    journal.settle(error)

    assert replies == [error]


def test_what_rests_on_a_batch_that_is_never_committed_is_not_heard_either() -> None:
    machine, _, journal = a_machine()
    journal.holds = True
    replies: Replies[str] = Replies()
    machine.run(lambda: Decision((a_record(0, 5),), "written"), replies.append)
    machine.run(lambda: Decision((), "read"), replies.append)

    error = StorageError("fsync failed")
    journal.settle(error)

    assert replies == [error, error]


def test_a_lead_that_is_lost_before_a_commit_ends_the_machine_and_sends_all_who_wait_elsewhere() -> None:
    machine, _, journal = a_machine()
    journal.holds = True
    replies: Replies[str] = Replies()
    machine.run(lambda: Decision((a_record(0, 5),), "written"), replies.append)
    machine.run(lambda: Decision((), "read"), replies.append)

    journal.settle(Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "led elsewhere"))
    machine.run(lambda: Decision((), "read later"), replies.append)

    codes = [reply.code for reply in replies if isinstance(reply, Refused)]
    assert codes == [ErrorCode.NOT_COORDINATOR] * 3
    assert machine.phase is Phase.CLOSED


def test_replay_makes_the_same_state_as_the_decisions_did() -> None:
    machine, state, journal = a_machine()
    ignore: Replies[None] = Replies()
    machine.run(lambda: Decision((a_record(0, 5), a_record(1, 6)), None), ignore.append)
    machine.run(lambda: Decision((a_record(0, 9),), None, PRODUCER), ignore.append)
    journal.mark(machine, PRODUCER, commit=True)
    machine.run(lambda: Decision((a_record(1, None),), None), ignore.append)

    _, replayed, _ = a_machine(journal)

    assert replayed.seen == state.seen
    assert (PRODUCER, True) in replayed.seen


def test_commands_are_refused_while_the_log_is_read_and_after_the_end() -> None:
    machine = Machine(KINDS, Applied(), MemoryJournal(), lambda: MIDNIGHT, 0)
    replies: Replies[str] = Replies()

    machine.run(lambda: Decision((), "yes"), replies.append)
    machine.loaded()
    machine.close()
    machine.run(lambda: Decision((), "yes"), replies.append)

    codes = [reply.code for reply in replies if isinstance(reply, Refused)]
    assert codes == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]


def test_closing_answers_all_who_wait_for_a_commit() -> None:
    machine, _, journal = a_machine()
    journal.holds = True
    replies: Replies[str] = Replies()
    machine.run(lambda: Decision((a_record(0, 5),), "yes"), replies.append)

    machine.close()
    journal.settle()

    assert replies.refused.code is ErrorCode.NOT_COORDINATOR


def test_a_marker_told_while_the_log_is_read_is_left_to_the_reading() -> None:
    state = Applied()
    machine = Machine(KINDS, state, MemoryJournal(), lambda: MIDNIGHT, 0)

    machine.end_transaction(PRODUCER, commit=True)

    assert machine.phase is Phase.LOADING
    assert state.seen == []


def test_a_record_of_an_unknown_type_is_passed_over_and_a_damaged_one_is_not() -> None:
    state = Applied()
    machine = Machine(KINDS, state, MemoryJournal(), lambda: MIDNIGHT, 0)

    machine.replay(b"\x00\x63whatever", b"", Offset(0), None)

    assert state.seen == []
    for key, value in [(None, b""), (b"\x00", b""), (b"\x00\x01\x00\x01g", b""), (b"\x00\x01", b"\x00\x09")]:
        with pytest.raises(CorruptDataError):
            machine.replay(key, value, Offset(1), None)
