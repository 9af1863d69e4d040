"""Fetch sessions (C1, KIP-227): opened, continued, refused, evicted; what an incremental answer omits."""

import pytest

from everlog.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, FetchSessions
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_EPOCH, Instant, Offset
from everlog.ports.files import FileSlice
from everlog.sim.chance import SimRandom
from everlog.sim.disk import SimFiles
from everlog.wire.hot.fetch import FetchData, FetchPartition, FetchResult, Topic

NOON = Instant(0)


def wanted(partition: int, offset: int = 0, topic: Topic = "orders") -> FetchPartition:
    return FetchPartition(topic, partition, NO_EPOCH, Offset(offset), NO_EPOCH, -1, 1 << 20)


def a_fetch(
    session_id: int,
    epoch: int,
    partitions: list[FetchPartition] | None = None,
    forgotten: list[tuple[Topic, int]] | None = None,
) -> FetchData:
    return FetchData(-1, 500, 1, 1 << 20, False, session_id, epoch, partitions or [], forgotten or [], "")


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, SimRandom(1))


def opened(cache: FetchSessions, *partitions: FetchPartition, now: Instant = NOON) -> FetchSession:
    context = cache.context(a_fetch(0, INITIAL_EPOCH, list(partitions)), by_id=False, now=now)
    assert context.session is not None
    return context.session


def some_records() -> FileSlice:
    files = SimFiles()
    files.make_dir("/d")
    file = files.open("/d/f", create=True)
    file.append((b"x" * 10,))
    return FileSlice(file, 0, 10)


def test_a_sessionless_fetch_gets_no_session() -> None:
    context = sessions().context(a_fetch(0, FINAL_EPOCH, [wanted(0)]), by_id=False, now=NOON)

    assert context.session is None
    assert context.session_id == NO_SESSION
    assert not context.incremental


def test_a_continued_session_remembers_what_is_wanted() -> None:
    cache = sessions()
    session = opened(cache, wanted(0), wanted(1))

    context = cache.context(
        a_fetch(session.session_id, 1, [wanted(1, 50), wanted(2)], [("orders", 0)]), by_id=False, now=NOON
    )

    assert context.incremental
    assert [(one.partition, one.fetch_offset) for one in context.partitions] == [(1, 50), (2, 0)]


def test_the_epoch_must_follow_the_last_one() -> None:
    cache = sessions()
    session = opened(cache, wanted(0))
    cache.context(a_fetch(session.session_id, 1), by_id=False, now=NOON)

    with pytest.raises(Refused) as refused:
        cache.context(a_fetch(session.session_id, 1), by_id=False, now=NOON)
    assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    cache.context(a_fetch(session.session_id, 2), by_id=False, now=NOON)


def test_after_the_largest_epoch_comes_one() -> None:
    cache = sessions()
    session = opened(cache, wanted(0))
    session.epoch = 0x7FFFFFFF

    cache.context(a_fetch(session.session_id, 0x7FFFFFFF), by_id=False, now=NOON)

    assert session.epoch == 1


def test_an_unknown_session_and_a_mix_of_names_and_ids_are_refused() -> None:
    cache = sessions()
    session = opened(cache, wanted(0))

    with pytest.raises(Refused) as unknown:
        cache.context(a_fetch(session.session_id + 1, 1), by_id=False, now=NOON)
    with pytest.raises(Refused) as mixed:
        cache.context(a_fetch(session.session_id, 1), by_id=True, now=NOON)

    assert unknown.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert mixed.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_closing_a_session_frees_its_place() -> None:
    cache = sessions()
    session = opened(cache, wanted(0))

    cache.context(a_fetch(session.session_id, FINAL_EPOCH, [wanted(0)]), by_id=False, now=NOON)

    assert len(cache) == 0


def test_when_all_slots_are_in_use_a_fetch_goes_on_without_a_session() -> None:
    cache = sessions(slots=1)
    opened(cache, wanted(0))

    context = cache.context(a_fetch(0, INITIAL_EPOCH, [wanted(0)]), by_id=False, now=NOON)

    assert context.session is None


def test_a_session_unused_for_two_minutes_gives_way() -> None:
    cache = sessions(slots=1)
    old = opened(cache, wanted(0))

    new = opened(cache, wanted(0), now=Instant(120_000))

    assert new.session_id != old.session_id
    assert len(cache) == 1


def test_only_news_is_worth_telling() -> None:
    session = opened(sessions(), wanted(0))
    quiet = FetchResult(0, 0, 10, 10, 0)

    assert session.worth_telling("orders", quiet), "the first answer is news"
    assert not session.worth_telling("orders", quiet)
    assert session.worth_telling("orders", quiet._replace(high_watermark=11))
    assert session.worth_telling("orders", quiet._replace(high_watermark=11, start_offset=3))
    assert session.worth_telling("orders", FetchResult(0, 6)), "errors are always told"
    assert session.worth_telling("orders", FetchResult(0, 6))
    healed = FetchResult(0, 0, -1, -1, -1)
    assert session.worth_telling("orders", healed), "and that an error is over"


def test_a_partition_that_gave_data_goes_to_the_end() -> None:
    session = opened(sessions(), wanted(0), wanted(1))

    session.worth_telling("orders", FetchResult(0, 0, 10, 10, 0, None, some_records()))

    assert [key[1] for key in session.partitions] == [1, 0]


def many(count: int, topic: Topic = "orders") -> list[FetchPartition]:
    return [wanted(number, topic=topic) for number in range(count)]


def test_all_sessions_together_remember_so_many_partitions_and_a_fetch_beyond_goes_on_without() -> None:
    cache = FetchSessions(10, SimRandom(1), most_remembered=100)
    opened(cache, *many(60))

    beyond = cache.context(a_fetch(0, INITIAL_EPOCH, many(41)), by_id=False, now=NOON)

    assert (beyond.session_id, len(beyond.partitions)) == (NO_SESSION, 41)
    opened(cache, *many(40))


def test_a_session_unused_for_two_minutes_gives_way_to_one_of_many_partitions() -> None:
    cache = FetchSessions(10, SimRandom(1), most_remembered=100)
    opened(cache, *many(60))
    later = opened(cache, *many(30), now=Instant(60_000))

    opened(cache, *many(50), now=Instant(120_000))

    assert len(cache) == 2
    cache.context(a_fetch(later.session_id, 1), by_id=False, now=Instant(120_000))


def test_a_session_that_grows_beyond_what_all_may_remember_ends() -> None:
    cache = FetchSessions(10, SimRandom(1), most_remembered=100)
    opened(cache, *many(60))
    growing = opened(cache, *many(30))

    with pytest.raises(Refused) as refused:
        cache.context(a_fetch(growing.session_id, 1, many(11, "x")), by_id=False, now=NOON)

    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == 1
    opened(cache, *many(40))


def test_what_a_session_forgets_and_what_ends_with_it_makes_room() -> None:
    cache = FetchSessions(10, SimRandom(1), most_remembered=100)
    session = opened(cache, *many(60))
    forgotten: list[tuple[Topic, int]] = [("orders", number) for number in range(50)]
    cache.context(a_fetch(session.session_id, 1, [], forgotten), by_id=False, now=NOON)
    opened(cache, *many(90))

    cache.context(a_fetch(session.session_id, FINAL_EPOCH), by_id=False, now=NOON)

    opened(cache, *many(10))
