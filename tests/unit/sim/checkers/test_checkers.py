"""C1 to C23: for each a history that breaks that one and no other, and the nearest one that is sound."""

from dataclasses import replace

from everlog.sim.checkers.violation import NAMES
from everlog.sim.history import Kind, Lookup, Membership, Operation, Pipeline, Polled, Promises, Sent
from tests.unit.sim.checkers.histories import (
    FAIL,
    INFO,
    OK,
    broken,
    commit,
    committed,
    fault,
    final,
    gather,
    got,
    join,
    limits,
    own,
    poll,
    put,
    send,
    txn,
)


def test_an_empty_history_is_sound() -> None:
    assert broken() == set()


def test_c1_two_values_at_one_offset() -> None:
    writes = (send(put("a", 0)), send(put("b"), outcome=INFO, at=2, process="other"))

    assert broken(*writes, poll(got("b", 0)), poll(got("a", 0), process="second")) == {"C1"}
    assert broken(*writes, poll(got("a", 0)), poll(got("a", 0), got("b", 1), process="second")) == set()


def test_c1_holds_between_two_acknowledgements() -> None:
    assert broken(send(put("a", 7)), send(put("b", 7), process="other")) == {"C1"}


def test_c2_one_value_at_two_offsets() -> None:
    history = (send(put("a", 0)), poll(got("a", 0), got("a", 1)))

    assert broken(*history) == {"C2"}
    assert broken(*history, promises=Promises(idempotent=False)) == set()


def test_c3_a_reader_passed_an_acknowledged_value_without_seeing_it() -> None:
    writes = (send(put("a", 0)), send(put("b", 1), at=2))

    assert broken(*writes, poll(got("b", 1))) == {"C3"}
    assert broken(*writes, poll(got("a", 0))) == set()
    lost = (replace(writes[0], outcome=INFO, end=None), writes[1])
    assert broken(*lost, poll(got("b", 1))) == set()


def test_c3_counts_what_is_unknown_once_a_part_of_it_was_read() -> None:
    unknown = txn(put("a", 0), put("b", 0, "t-1"), outcome=INFO)
    later = send(put("c", 4, "t-1"), at=50, process="other")

    assert broken(unknown, later, poll(got("a", 0), got("c", 4, "t-1"))) == {"C3"}
    assert broken(unknown, later, poll(got("c", 4, "t-1"))) == set()


def test_c4_the_final_read_ends_before_an_acknowledged_value() -> None:
    writes = (send(put("a", 0)), send(put("b", 1), at=2))

    assert broken(*writes, final(got("a", 0))) == {"C4"}
    assert broken(*writes, final(got("a", 0), got("b", 1))) == set()
    assert broken(*writes, final(partitions=("t-1",))) == set()
    unknown = replace(writes[1], outcome=INFO, end=None)
    assert broken(writes[0], unknown, final(got("a", 0))) == set()


def test_c5_a_refused_value_was_read() -> None:
    assert broken(send(put("a"), outcome=FAIL), poll(got("a", 0))) == {"C5"}
    assert broken(send(put("a"), outcome=INFO), poll(got("a", 0))) == set()


def test_c5_an_aborted_value_is_for_those_who_read_uncommitted() -> None:
    aborted = txn(put("a", 0), outcome=FAIL)

    assert broken(aborted, poll(got("a", 0))) == {"C5"}
    assert broken(aborted, poll(got("a", 0), committed=False)) == set()


def test_c6_a_transaction_read_its_own_write() -> None:
    own_read = txn(put("a", 0), reads=(got("a", 0),))

    assert broken(own_read) == {"C6"}
    assert broken(replace(own_read, read_committed=False)) == set()
    assert broken(txn(put("a", 0)), txn(reads=(got("a", 0),), at=20)) == set()


def test_c7a_a_poll_left_a_value_out() -> None:
    writes = tuple(send(put(name, at), at=at * 2) for at, name in enumerate("abc"))
    everyone = poll(*(got(name, at) for at, name in enumerate("abc")), process="other")

    gap = poll(got("a", 0), got("c", 2))
    assert broken(*writes, everyone, gap) == {"C7a"}
    assert broken(*writes, everyone, replace(gap, rebalanced=("t-0",))) == set()


def test_c7a_does_not_miss_what_was_never_visible() -> None:
    aborted = txn(put("b", 1), outcome=FAIL)
    writes = (send(put("a", 0)), aborted, send(put("c", 3), at=10))

    assert broken(*writes, poll(got("a", 0), got("c", 3))) == set()


def test_c7b_a_poll_went_back() -> None:
    writes = (send(put("a", 0)), send(put("b", 1), at=2))

    assert broken(*writes, poll(got("a", 0), got("b", 1), got("a", 0))) == {"C7b"}
    assert broken(*writes, poll(got("a", 0), got("b", 1))) == set()


def test_c8a_the_next_poll_left_a_value_out() -> None:
    writes = tuple(send(put(name, at), at=at * 2) for at, name in enumerate("abc"))
    everyone = poll(*(got(name, at) for at, name in enumerate("abc")), process="other")
    first, next_one = poll(got("a", 0), at=100), poll(got("c", 2), at=110)
    chosen = Operation("reader", Kind.ASSIGN, OK, 105, 106, partitions=("t-0",))

    assert broken(*writes, everyone, first, next_one) == {"C8a"}
    assert broken(*writes, everyone, first, chosen, next_one) == set()


def test_c8b_the_next_poll_went_back() -> None:
    writes = (send(put("a", 0)), send(put("b", 1), at=2))
    first, again = poll(got("a", 0), got("b", 1)), poll(got("a", 0), at=110)
    chosen = Operation("reader", Kind.SUBSCRIBE, OK, 105, 106)

    assert broken(*writes, first, again) == {"C8b"}
    assert broken(*writes, first, chosen, again) == set()


def test_c9a_a_later_send_lies_before_an_earlier_one() -> None:
    assert broken(send(put("a", 5)), send(put("b", 3), at=2)) == {"C9a"}
    assert broken(send(put("a", 5)), send(put("b", 3), at=2, process="other")) == set()


def test_c9b_a_later_write_of_a_transaction_lies_before_an_earlier_one() -> None:
    assert broken(txn(put("a", 5), put("b", 3))) == {"C9b"}
    # Other writers in between are no matter: Kafka does not keep transactions apart as they write.
    assert broken(txn(put("a", 3), put("b", 5)), txn(put("c", 4), process="other")) == set()


def test_c10_two_transactions_saw_each_other() -> None:
    one = txn(put("a", 0), reads=(got("b", 0, "t-1"),), process="p")
    other = txn(put("b", 0, "t-1"), reads=(got("a", 0),), process="q")

    assert broken(one, other) == {"C10"}
    assert broken(one, replace(other, polls=())) == set()


def test_c10_uses_the_order_within_processes() -> None:
    first = txn(put("a", 0), reads=(got("z", 0, "t-2"),), at=0, end=5, process="p")
    second = txn(put("b", 0, "t-1"), at=5, end=10, process="p")
    back = txn(put("z", 0, "t-2"), reads=(got("b", 0, "t-1"),), at=0, end=20, process="q")

    assert broken(first, second, back) == {"C10"}
    assert broken(replace(first, polls=()), second, back) == set()


def test_c10_a_value_was_read_before_its_transaction_began() -> None:
    early = poll(got("a", 0), at=10)

    assert broken(early, txn(put("a", 0), at=50)) == {"C10"}
    assert broken(early, txn(put("a", 0), at=8)) == set()


def test_c11_a_value_that_nobody_sent() -> None:
    assert broken(poll(got("ghost", 0))) == {"C11"}
    assert broken(send(put("ghost"), outcome=INFO), poll(got("ghost", 0))) == set()


def test_c11_a_record_that_was_changed() -> None:
    sent = send(Sent("t-0", "a", 0, "k", timestamp=5, digest="d"))

    for changed in (
        Polled("t-0", 0, "a", "other", timestamp=5, digest="d"),
        Polled("t-0", 0, "a", "k", timestamp=6, digest="d"),
        Polled("t-0", 0, "a", "k", timestamp=5, digest="e"),
    ):
        assert broken(sent, poll(changed)) == {"C11"}
    assert broken(sent, poll(Polled("t-0", 0, "a", "k", timestamp=5, digest="d"))) == set()


_COPY = Promises(pipelines=(Pipeline("g", ("in-0",), ("out-0",)),))


def _copied(*sources: int, committed_to: int) -> tuple[Operation, ...]:
    """Two records in, and outputs that came from these offsets of them."""
    outputs = [Sent("out-0", f"copy {at}", at, source=f"in-0@{source}") for at, source in enumerate(sources)]
    polled = tuple(Polled("out-0", at, sent.value, source=sent.source) for at, sent in enumerate(outputs))
    inputs = (got("a", 0, "in-0"), got("b", 1, "in-0"))
    return (
        send(put("a", 0, "in-0"), put("b", 1, "in-0")),
        *(txn(sent, at=10 * at + 10) for at, sent in enumerate(outputs)),
        final(*inputs, *polled, partitions=("in-0", "out-0")),
        committed(committed_to, 990, final=True, partition="in-0"),
    )


def test_c12_a_record_came_out_twice_or_not_at_all_or_ahead_of_the_group() -> None:
    assert broken(*_copied(0, 1, 1, committed_to=2), promises=_COPY) == {"C12"}
    assert broken(*_copied(0, committed_to=2), promises=_COPY) == {"C12"}
    assert broken(*_copied(0, 1, committed_to=1), promises=_COPY) == {"C12"}
    assert broken(*_copied(0, 1, 7, committed_to=2), promises=_COPY) == {"C12"}
    assert broken(*_copied(0, 1, committed_to=2), promises=_COPY) == set()
    assert broken(*_copied(0, committed_to=1), promises=_COPY) == set()


def test_c13_half_a_transaction_is_visible() -> None:
    both = ("t-0", "t-1")
    unknown = txn(put("a"), put("b", None, "t-1"), outcome=INFO)

    assert broken(unknown, final(got("a", 0), partitions=both)) == {"C13"}
    assert broken(unknown, final(got("a", 0), got("b", 0, "t-1"), partitions=both)) == set()
    assert broken(unknown, final(partitions=both)) == set()


def test_c13_offsets_go_with_the_writes() -> None:
    writes = txn(put("a"), outcome=INFO, offsets={"in-0": 5})
    done, not_done = final(got("a", 0)), final()
    at_5 = committed(5, 990, final=True, partition="in-0")
    at_4 = committed(4, 990, final=True, partition="in-0")

    assert broken(writes, done, at_4) == {"C13"}
    assert broken(writes, not_done, at_5) == {"C13"}
    assert broken(writes, done, at_5) == set()
    assert broken(writes, not_done, at_4) == set()
    # Somebody else may have done the same work after the first try was aborted.
    again = txn(put("again"), at=20, process="other", offsets={"in-0": 5})
    assert broken(writes, again, final(got("again", 0)), at_5) == set()


def test_c14_a_reader_got_more_than_there_was() -> None:
    write = send(put("a", 5))
    beyond = replace(poll(got("a", 5)), bounds=(limits(9, 5),))

    assert broken(write, beyond) == {"C14"}
    assert broken(write, replace(beyond, read_committed=False)) == set()
    assert broken(write, replace(beyond, read_committed=False, bounds=(limits(5, 5),))) == {"C14"}
    assert broken(write, replace(beyond, bounds=(limits(9, 6),))) == set()


def test_c14_what_could_be_read_never_shrinks_for_one_reader_of_one_leader() -> None:
    first = replace(poll(), bounds=(limits(9, 6),))

    for later in (limits(8, 6), limits(9, 5)):
        assert broken(first, replace(poll(at=200), bounds=(later,))) == {"C14"}
    assert broken(first, replace(poll(at=200), bounds=(limits(8, 5, leader_epoch=1),))) == set()
    assert broken(first, replace(poll(at=200, process="other"), bounds=(limits(8, 6),))) == set()


def test_c15_a_committed_offset_went_back() -> None:
    assert broken(commit(5, at=0), committed(4, at=10)) == {"C15"}
    assert broken(commit(5, at=0), committed(-1, at=10)) == {"C15"}
    assert broken(commit(5, at=0), commit(4, at=10)) == {"C15"}
    assert broken(commit(5, at=0), committed(5, at=10), commit(7, at=20)) == set()
    # Both were under way at once, so the answer may be either.
    assert broken(replace(commit(5, at=0), end=50), committed(4, at=10)) == set()


def test_c15_a_copy_of_a_commit_may_arrive_late_if_there_was_one() -> None:
    first, later = commit(2, at=0), commit(5, at=10)

    assert broken(replace(first, repeated=True), later, committed(2, at=20), commit(3, at=30)) == set()
    assert broken(first, later, committed(2, at=20)) == {"C15"}
    assert broken(replace(first, repeated=True), later, committed(3, at=20)) == {"C15"}
    assert broken(commit(3, at=0), replace(commit(2, at=10), repeated=True)) == {"C15"}


def test_c15_lets_a_group_be_set_back_on_purpose() -> None:
    assert broken(commit(5, at=0), commit(2, at=10, reset=True), committed(2, at=20)) == set()
    assert broken(commit(5, at=0), commit(2, at=10, reset=True), committed(1, at=20)) == {"C15"}


def test_c15_a_commit_that_was_lost_on_the_way_may_arrive_late_and_the_group_go_on_from_there() -> None:
    late = replace(commit(2, at=0), outcome=INFO, end=None)

    assert broken(late, commit(5, at=10), committed(2, at=20), commit(3, at=30)) == set()
    assert broken(late, commit(5, at=10), committed(3, at=20)) == {"C15"}


def test_c15_a_commit_lies_behind_the_end() -> None:
    ends = replace(final(), bounds=(limits(5, 5),))

    assert broken(commit(6, at=0), ends) == {"C15"}
    assert broken(commit(5, at=0), ends) == set()


def test_c15_a_commit_of_an_old_generation_was_accepted() -> None:
    assert broken(join(2, at=0), commit(5, at=10, generation=1)) == {"C15"}
    assert broken(join(2, at=0), commit(5, at=10, generation=2)) == set()
    assert broken(replace(join(2, at=0), end=10), commit(5, at=10, generation=1)) == set()


def test_c15_a_generation_that_was_not_shared_out_counts_until_the_broker_stops() -> None:
    late = commit(5, at=20, generation=1)

    assert broken(gather(2, at=5), late) == {"C15"}
    assert broken(fault(0, 4), gather(2, at=5), late) == {"C15"}
    assert broken(gather(2, at=5), late, fault(30, 31)) == {"C15"}
    assert broken(gather(2, at=5), fault(8, 9), late) == set()
    # Its answer was still under way when the broker had gone.
    assert broken(replace(gather(2, at=5), end=12), fault(8, 9), late) == set()


def test_c15_a_generation_that_was_shared_out_outlives_the_broker() -> None:
    assert broken(gather(2, at=1), join(2, at=3), fault(8, 9), commit(5, at=20, generation=1)) == {"C15"}
    assert broken(join(2, at=3), gather(3, at=5), fault(8, 9), commit(5, at=20, generation=2)) == set()


def test_c15_members_of_newer_groups_are_fenced_one_by_one() -> None:
    newer = replace(join(2, at=0), membership=Membership("g", "m", 2, "consumer"))
    other = replace(commit(5, at=10), membership=Membership("g", "n", 1, "consumer"))
    same = replace(commit(5, at=10), membership=Membership("g", "m", 1, "consumer"))

    assert broken(newer, other) == set()
    assert broken(newer, same) == {"C15"}


def test_c16_two_owners_in_one_generation() -> None:
    assert broken(own("m", 1, 0, 10), own("n", 1, 20, 30)) == {"C16"}
    assert broken(own("m", 1, 0, 10), own("n", 2, 20, 30)) == set()


def test_c16_two_owners_at_once() -> None:
    assert broken(own("m", 1, 0, 10), own("n", 2, 5, 30)) == {"C16"}
    # Who was fenced while it was away may think so for a while.
    assert broken(own("m", 1, 0, 10, outcome=INFO), own("n", 2, 5, 30)) == set()


def test_c17_an_old_epoch_was_accepted() -> None:
    fence = Operation("new", Kind.FENCE, OK, 10, 11, epochs={"txn:x": 4})
    old = replace(txn(put("a", 0), at=20), epochs={"txn:x": 3})

    assert broken(fence, old) == {"C17"}
    assert broken(fence, replace(old, start=10)) == set()
    assert broken(fence, replace(old, outcome=FAIL)) == set()
    assert broken(fence, replace(old, epochs={"txn:x": 4})) == set()
    assert broken(fence, replace(old, epochs={"txn:y": 3})) == set()


def _looked_up(time: int, offset: int) -> set[str]:
    records = [(0, 10), (1, 30), (2, 20), (3, 40)]
    sends = [Sent("t-0", f"v{at}", at, timestamp=stamp) for at, stamp in records]
    polls = [Polled("t-0", at, f"v{at}", timestamp=stamp) for at, stamp in records]
    asked = Operation("asks", Kind.LOOKUP, OK, 950, 951, lookups=(Lookup("t-0", time, offset),), final=True)
    return broken(send(*sends), final(*polls), asked)


def test_c17_generations_of_a_classic_group_grow_whoever_coordinates_it() -> None:
    assert broken(join(2, 0), join(1, 5, "other")) == {"C17"}
    assert broken(join(2, 0), join(2, 5, "other"), join(3, 9)) == set()
    # One that nobody shared out is given again after a fault, and answers may come late.
    assert broken(gather(2, 0), join(1, 5)) == set()
    assert broken(replace(join(2, 0), end=9), join(1, 5, "other")) == set()


def test_c18_a_lookup_by_time() -> None:
    for time, right in ((5, 0), (10, 0), (15, 1), (20, 1), (31, 3), (41, -1)):
        for answer in range(-1, 5):
            assert _looked_up(time, answer) == (set() if answer == right else {"C18"}), (time, answer)


def test_c18_does_not_ask_for_what_came_later() -> None:
    early = Operation("asks", Kind.LOOKUP, OK, 0, 1, lookups=(Lookup("t-0", 5, -1),))
    write = replace(send(Sent("t-0", "a", 0, timestamp=9)), start=0, end=5)

    assert broken(early, write, final(Polled("t-0", 0, "a", timestamp=9))) == set()
    late = replace(early, start=6, end=7)
    assert broken(late, write, final(Polled("t-0", 0, "a", timestamp=9))) == {"C18"}


_TABLE = Promises(compacted=("t-0",), delete_retention_ms=100)


def test_c19_the_newest_value_of_a_key_is_gone() -> None:
    writes = (
        send(put("a.1", 0, key="a")),
        send(put("b.1", 1, key="b"), at=2),
        send(put("a.2", 2, key="a"), at=4),
    )

    assert broken(*writes, final(got("b.1", 1, key="b")), promises=_TABLE) == {"C19"}
    assert broken(*writes, final(got("a.1", 0, key="a"), got("b.1", 1, key="b")), promises=_TABLE) == {"C19"}
    assert broken(*writes, final(got("b.1", 1, key="b"), got("a.2", 2, key="a")), promises=_TABLE) == set()


def test_c19_a_deleted_key_is_there_again() -> None:
    writes = (send(put("a.1", 0, key="a")), send(put("a.", 1, key="a"), at=2))
    old, deleted = got("a.1", 0, key="a"), got("a.", 1, key="a")

    assert broken(*writes, final(old), promises=_TABLE) == {"C19"}
    assert broken(*writes, final(old, deleted), promises=_TABLE) == set()
    assert broken(*writes, final(), promises=_TABLE) == set()


def test_c19_a_deletion_stays_for_its_time() -> None:
    writes = (send(put("a.1", 0, key="a")), send(put("a.", 1, key="a"), at=850))

    assert broken(*writes, final(), promises=_TABLE) == {"C19"}
    assert broken(*writes, final(got("a.", 1, key="a")), promises=_TABLE) == set()


def test_c19_says_nothing_of_a_key_that_may_have_been_deleted() -> None:
    writes = (send(put("a.1", 0, key="a")), send(put("a.", None, key="a"), at=2, outcome=INFO))

    assert broken(*writes, final(), promises=_TABLE) == set()


def test_c21_money_came_or_went() -> None:
    seen = Operation("bank", Kind.BALANCES, OK, 0, 1, amounts={"a": 40, "b": 59})

    assert broken(seen, promises=Promises(total=100)) == {"C21"}
    assert broken(replace(seen, amounts={"a": 41, "b": 59}), promises=Promises(total=100)) == set()


def test_c22_nothing_succeeded_for_too_long() -> None:
    early, late = send(put("a", 0)), send(put("b", 1), at=500)
    killed = fault(50, 450)
    promised = Promises(longest_silence_ms=100)

    assert broken(early, late, promises=promised) == {"C22"}
    assert broken(early, killed, late, promises=promised) == set()
    assert broken(early, replace(killed, end=300), late, promises=promised) == {"C22"}
    assert broken(early, late) == set()


def test_c23_a_group_went_on_behind_what_no_member_was_given() -> None:
    sends = (send(put("a", 0)), send(put("b", 1), at=20))
    everything = final(got("a", 0), got("b", 1))
    given = replace(poll(got("a", 0)), membership=Membership("g"))
    promised = Promises(at_least_once=("g",))

    assert broken(*sends, given, committed(2, 950, final=True), everything, promises=promised) == {"C23"}
    assert broken(*sends, given, committed(1, 950, final=True), everything, promises=promised) == set()
    # Somebody else's poll is none of the group's.
    alone = poll(got("b", 1), process="other")
    assert broken(*sends, given, alone, committed(2, 950, final=True), everything, promises=promised) == {
        "C23"
    }
    assert broken(*sends, given, committed(2, 950, final=True), everything) == set()


def test_every_invariant_has_a_test_here() -> None:
    tests = [name for name in globals() if name.startswith("test_c")]

    for invariant in NAMES:
        assert any(name.startswith(f"test_{invariant.lower()}_") for name in tests), invariant
