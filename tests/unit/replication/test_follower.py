"""Where a follower's log and its leader's part ways: the shapes that epochs tell apart (R6, KIP-101, 279)."""

import pytest

from everlog.model.ids import LeaderEpoch, Offset
from everlog.replication.follower import Append, Fetched, FetchFrom, FollowerState, Ignore, TruncateTo
from tests.sim.partition_world import Log

EPOCH = LeaderEpoch(9)


def a_log(epochs: str) -> Log:
    """`112` is three records, two of epoch 1 and one of epoch 2."""
    log = Log()
    log.entries = [(int(epoch), b"") for epoch in epochs]
    return log


def cut_to_agree(follower: Log, leader: Log) -> Log:
    """Let the follower fetch until the leader has nothing to object to."""
    state = FollowerState(1, EPOCH, follower, Offset(0))
    for _ in range(10):
        asked = state.next_fetch()
        found, end = leader.epoch_end(asked.last_epoch)
        if asked.offset == 0 or (found == asked.last_epoch and end >= asked.offset):
            return follower
        told = state.take(Fetched(EPOCH, Offset(0), Offset(0), (found, end)))
        assert isinstance(told, TruncateTo), told
        follower.truncate(told.end)
    raise AssertionError("they never agree")


@pytest.mark.parametrize(
    ("follower", "leader", "agreed"),
    [
        ("11", "1122", "11"),  # Behind: nothing to cut.
        ("1122", "1122", "1122"),  # The same.
        ("1111", "1122", "11"),  # A tail of an epoch that ended earlier for the leader.
        ("1133", "1122", "11"),  # An epoch that the leader never had.
        ("113355", "112244", "11"),  # Several of them, taken in turns: one look-up is not enough (KIP-279).
        ("3355", "112244", ""),  # Nothing in common.
        ("1122", "11", "11"),  # The leader has less: an unclean election.
        ("11334", "1133", "1133"),
    ],
)
def test_logs_are_cut_where_their_epochs_part(follower: str, leader: str, agreed: str) -> None:
    found = cut_to_agree(a_log(follower), a_log(leader))

    assert "".join(str(epoch) for epoch, _ in found.entries) == agreed


def test_an_answer_of_an_earlier_epoch_says_nothing() -> None:
    state = FollowerState(1, EPOCH, a_log("11"), Offset(0))

    assert state.take(Fetched(LeaderEpoch(8), Offset(2), Offset(0), (LeaderEpoch(1), Offset(1)))) == Ignore()


def test_a_fetch_says_the_epoch_of_the_last_record() -> None:
    assert FollowerState(1, EPOCH, a_log("112"), Offset(0)).next_fetch() == FetchFrom(
        EPOCH, Offset(3), LeaderEpoch(2)
    )


def test_what_is_committed_is_at_most_what_is_here() -> None:
    log = a_log("11")
    state = FollowerState(1, EPOCH, log, Offset(5))
    assert state.high_watermark == 2
    answer = Fetched(EPOCH, Offset(9), Offset(0))

    assert state.take(answer) == Append()
    log.entries.append((9, b""))

    assert state.appended(answer) == 3
