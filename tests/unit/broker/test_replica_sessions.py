"""What a follower is told of a partition, and what it is told again."""

from everlog.broker.replica_sessions import Followed, ReplicaSession, ReplicaSessions
from everlog.broker.replicas import Replicas
from everlog.model.ids import BrokerId, LeaderEpoch, Offset
from everlog.sim.alarm import SimAlarm
from everlog.sim.clock import SimClock
from everlog.wire.hot.fetch import FetchData, FetchPartition, FetchResult


def a_followed_partition() -> Followed:
    def read(_followed: Followed, _room: int, _larger: bool) -> FetchResult:
        raise AssertionError("nobody fetches here")

    sessions = ReplicaSessions(Replicas(), SimClock(), SimAlarm(), read, 1 << 20)
    return Followed(ReplicaSession(sessions, BrokerId(2), 7, 1), ("log", 0))


def place(offset: int) -> FetchPartition:
    return FetchPartition("log", 0, LeaderEpoch(3), Offset(offset), LeaderEpoch(3), 0, 1 << 20)


def test_a_follower_that_speaks_up_by_itself_is_told_the_high_watermark_again() -> None:
    """The answer that it was in may have come after it had asked anew, and counts for nothing then."""
    followed = a_followed_partition()
    followed.update(place(10))
    followed.told_high_watermark, followed.told_start = 10, 0

    followed.update(place(10))

    assert (followed.told_high_watermark, followed.told_start) == (-1, -1)


def test_a_follower_that_says_what_it_was_asked_for_has_heard_the_rest_too() -> None:
    followed = a_followed_partition()
    followed.update(place(10))
    followed.told_high_watermark, followed.told_start, followed.awaited = 10, 0, True

    followed.update(place(12))

    assert (followed.told_high_watermark, followed.told_start) == (10, 0)


def test_a_follower_that_has_to_cut_its_log_is_told_the_high_watermark_afterwards() -> None:
    answers = [FetchResult(0, 0, 12, 12, 0, diverging=(2, 10)), FetchResult(0, 0, 12, 12, 0)]

    def read(_followed: Followed, _room: int, _larger: bool) -> FetchResult:
        return answers.pop(0)

    sessions = ReplicaSessions(Replicas(), SimClock(), SimAlarm(), read, 1 << 20)
    session = sessions.open(BrokerId(2), 7)
    told: list[list[FetchResult]] = []
    for offset in (12, 10):
        request = FetchData(2, 0, 1, 1 << 20, False, session.session_id, 1, [place(offset)], [], "")
        session.update(request, Replicas())
        told += session._look(request, may_wait=False).values()  # pyright: ignore[reportPrivateUsage]

    assert [result.diverging for [result] in told] == [(2, 10), None]
