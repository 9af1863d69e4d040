"""Topics that come, go and grow; patterns; which assignor is used (C2, C3)."""

import pytest

from everlog.coordinator.group import regex
from everlog.coordinator.group.consumer_member import NO_PARTITIONS
from everlog.coordinator.group.regex import compile_pattern, matching
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Uuid
from tests.unit.coordinator.group.consumer_shard import Client, a_shard, partitions_of, settle
from tests.unit.coordinator.worlds import a_topic


def test_new_partitions_are_given_out_at_the_next_heartbeat() -> None:
    shard = a_shard(1)
    client = Client(shard, "a", "t0").join()

    shard.set_topics(a_topic("t0", 3))
    settle(client)

    assert client.owned == partitions_of(a_topic("t0", 3))


def test_a_topic_that_was_awaited_is_given_out_when_it_is_made() -> None:
    shard = a_shard()
    client = Client(shard, "a", "t0").join()
    assert client.owned == NO_PARTITIONS

    shard.set_topics(a_topic("t0", 2))
    settle(client)

    assert client.owned == partitions_of(a_topic("t0", 2))


def test_partitions_of_a_deleted_topic_are_taken_back() -> None:
    shard = a_shard(1, 1)
    client = Client(shard, "a", "t0", "t1").join()

    shard.set_topics(a_topic("t0"))
    settle(client)

    assert client.owned == partitions_of(a_topic("t0"))


def test_a_topic_made_anew_is_another_one() -> None:
    shard = a_shard(1)
    client = Client(shard, "a", "t0").join()
    again = a_topic("t0", 1, Uuid(b"another topic id"))

    shard.set_topics(again)
    settle(client)

    assert client.owned == partitions_of(again)


def test_a_topic_that_nobody_reads_changes_nothing() -> None:
    shard = a_shard(1)
    client = Client(shard, "a", "t0").join()
    before = shard.log()

    shard.set_topics(a_topic("t0"), a_topic("other"))
    client.beat()

    assert shard.log() == before


def test_topics_that_changed_while_nobody_coordinated_are_noticed() -> None:
    shard = a_shard(1)
    client = Client(shard, "a", "t0").join()
    shard.set_topics(a_topic("t0", 2))

    shard.restart()
    settle(client)

    assert client.owned == partitions_of(a_topic("t0", 2))


def test_a_member_that_subscribes_to_something_else_gives_up_what_it_had() -> None:
    shard = a_shard(2, 2)
    first = Client(shard, "a", "t0").join()
    second = Client(shard, "b", "t0", "t1").join()
    settle(first, second)

    first.topics = frozenset({"t1"})
    first.take(first.send(first.full()))
    first.take(first.send(first.brief(first.owned)))
    settle(first, second)

    assert second.owned >= partitions_of(a_topic("t0", 2))
    assert first.owned | second.owned == partitions_of(a_topic("t0", 2)) | partitions_of(a_topic("t1", 2))


# --- patterns


def test_a_pattern_stands_for_all_topics_that_match_as_a_whole() -> None:
    shard = a_shard(1, 1)
    shard.set_topics(
        a_topic("logs-a"), a_topic("logs-b"), a_topic("my-logs-a"), a_topic("__consumer_offsets")
    )

    client = Client(shard, "a", regex="(logs|__).*").join()

    assert client.owned == partitions_of(a_topic("logs-a")) | partitions_of(a_topic("logs-b"))
    assert shard.group().subscribes_to("logs-b")
    assert not shard.group().subscribes_to("my-logs-a")


def test_a_new_topic_that_matches_is_given_out() -> None:
    shard = a_shard()
    client = Client(shard, "a", regex="logs-.*").join()

    shard.set_topics(a_topic("logs-a"), a_topic("other"))
    settle(client)
    assert client.owned == partitions_of(a_topic("logs-a"))

    shard.set_topics(a_topic("logs-a"), a_topic("logs-b"))
    shard.restart()
    settle(client)
    assert client.owned == partitions_of(a_topic("logs-a")) | partitions_of(a_topic("logs-b"))


def test_names_and_a_pattern_add_up() -> None:
    shard = a_shard(1, 1, 1)

    client = Client(shard, "a", "t0", regex="t2").join()

    assert client.owned == partitions_of(a_topic("t0")) | partitions_of(a_topic("t2"))


def test_the_empty_pattern_is_none() -> None:
    shard = a_shard(1)

    client = Client(shard, "a", "t0", regex="").join()

    assert client.owned == partitions_of(a_topic("t0"))
    assert shard.group().members["a"].subscription.regex is None
    assert not shard.group().regexes


def test_a_pattern_that_the_last_member_gave_up_is_forgotten() -> None:
    shard = a_shard(1)
    first = Client(shard, "a", regex="t.*").join()
    second = Client(shard, "b", regex="t.*").join()
    first.leave()
    assert shard.group().regexes.keys() == {"t.*"}

    second.leave()

    assert not shard.group().regexes
    assert not shard.group().subscribes_to("t0")


@pytest.mark.parametrize("pattern", ["(", "a{1001}", r"(a)\1", "(?=a)", "x" * (regex.MAX_PATTERN_LENGTH + 1)])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    shard = a_shard(1)
    client = Client(shard, "a", regex=pattern)

    assert client.refusal(client.full()) == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert shard.log() == []


def test_a_pattern_that_python_would_never_finish_takes_no_time() -> None:
    # Python's own re needs more than 2 ** 60 steps for this.
    assert matching("(a|aa)+b", ["a" * 120]) == frozenset()


def test_without_the_package_patterns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_pattern.cache_clear()
    monkeypatch.setattr(regex, "re2", None)

    with pytest.raises(Refused, match="google-re2 is not installed") as refused:
        matching("a", ["a"])

    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


# --- assignors


def test_the_assignor_that_most_ask_for_is_used() -> None:
    shard = a_shard(4, 4)
    topics = ("t0", "t1")
    clients = [Client(shard, name, *topics, assignor="range").join() for name in "ab"]
    clients.append(Client(shard, "c", *topics, assignor="uniform").join())
    settle(*clients)

    assert clients[0].owned == partitions_of(a_topic("t0", 4), [0, 1]) | partitions_of(
        a_topic("t1", 4), [0, 1]
    )
    assert shard.shard.consumer.describe(shard.group().id).assignor_name == "range"


def test_targets_are_worked_out_anew_when_another_assignor_is_preferred() -> None:
    shard = a_shard(2)
    client = Client(shard, "a", "t0").join()
    epoch = shard.group().epoch

    client.more = {"assignor": "range"}
    client.take(client.send(client.full()))

    assert shard.group().epoch == epoch + 1


def test_the_first_assignor_of_the_setting_is_used_where_nobody_asks_for_one() -> None:
    shard = a_shard(1, group_consumer_assignors="range,uniform")
    Client(shard, "a", "t0").join()

    assert shard.shard.consumer.describe(shard.group().id).assignor_name == "range"
