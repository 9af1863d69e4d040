"""What a consumer's settings and arguments may be, and how they are refused (C1, C4, C5)."""

from typing import Any

import pytest

from everlog.client.core.consumer.arguments import as_offset, as_offsets, as_place, as_places, as_topics
from everlog.client.core.consumer.settings import ConsumerSettings, reset_duration_ms
from everlog.client.core.errors import Misused
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.client.core.settings import read_settings
from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition


def test_the_defaults_are_kafkas() -> None:
    settings = ConsumerSettings()
    kafka = {
        "session_timeout_ms": 45_000,
        "heartbeat_interval_ms": 3_000,
        "max_poll_interval_ms": 300_000,
        "max_poll_records": 500,
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 5_000,
        "auto_offset_reset": "latest",
        "isolation_level": "read_uncommitted",
        "fetch_min_bytes": 1,
        "fetch_max_bytes": 52_428_800,
        "max_partition_fetch_bytes": 1_048_576,
        "fetch_max_wait_ms": 500,
        "default_api_timeout_ms": 60_000,
        "check_crcs": True,
        "exclude_internal_topics": True,
        "allow_auto_create_topics": True,
        "group_protocol": "classic",
    }
    assert {name: getattr(settings, name) for name in kafka} == kafka


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"auto_offset_reset": "newest"}, "auto_offset_reset='newest': expected earliest"),
        ({"auto_offset_reset": 5}, "auto_offset_reset=5"),
        ({"auto_offset_reset": "by_duration:"}, "auto_offset_reset='by_duration:': duration ''"),
        ({"auto_offset_reset": "by_duration:PT"}, "expected ISO 8601"),
        ({"isolation_level": "serializable"}, "isolation_level='serializable'"),
        ({"max_poll_records": 0}, "max_poll_records=0"),
        ({"group_id": ""}, "group_id=''"),
        ({"group_instance_id": "one"}, "group_instance_id='one': expected a group_id with it"),
        ({"heartbeat_interval_ms": 45_000}, "heartbeat_interval_ms=45000: expected less than session"),
        ({"partition_assignment_strategy": []}, "partition_assignment_strategy"),
        ({"client_rack": None}, "client_rack=None"),
        ({"key_deserializer": 7}, "key_deserializer=7"),
        ({"max_poll_record": 7}, "unknown setting max_poll_record=7: did you mean max_poll_records?"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_settings(ConsumerSettings, options)
    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("by_duration:PT1H30M", 5_400_000),
        ("by_duration:P1DT0.5S", 86_400_500),
        ("by_duration:pt5s", 5_000),
        ("earliest", None),
    ],
)
def test_durations_are_those_of_iso_8601(text: str, milliseconds: int | None) -> None:
    assert reset_duration_ms(text) == milliseconds
    assert read_settings(ConsumerSettings, {"auto_offset_reset": text}).auto_offset_reset == text


def test_partitions_may_be_pairs() -> None:
    place = TopicPartition("orders", 3)
    assert as_place(("orders", 3)) == place
    assert isinstance(as_place(("orders", 3)), TopicPartition)
    assert as_places([place, ("orders", 3)]) == [place]
    wrong: Any
    for wrong in ("orders", ("orders",), ("orders", "3"), ("orders", -1), (3, "orders"), ("orders", True), 7):
        with pytest.raises(TypeError, match="expected a partition"):
            as_place(wrong)


def test_offsets_may_be_numbers() -> None:
    assert as_offsets({("orders", 3): 7}) == {TopicPartition("orders", 3): OffsetAndMetadata(7)}
    with pytest.raises(Misused, match="offset -7"):
        as_offset(-7)
    wrong: Any
    for wrong in ("7", None, True):
        with pytest.raises(TypeError, match="expected an offset"):
            as_offset(wrong)


def test_a_subscription_is_names_or_a_pattern() -> None:
    assert as_topics("orders", None) == ("orders",)
    assert as_topics(["b", "a", "b"], None) == ("b", "a")
    assert as_topics(None, "orders.*") == ()
    for topics, pattern in ((None, None), (["a"], "a.*"), ([], None)):
        with pytest.raises(Misused, match="topics or a pattern"):
            as_topics(topics, pattern)
    with pytest.raises(Misused, match="may only have"):
        as_topics(["no spaces please"], None)


def test_a_pattern_is_judged_by_who_matches_it() -> None:
    letters = r"\pL+-orders"  # RE2 reads it, `re` does not.
    assert as_topics(None, letters, matches_here=False) == ()
    with pytest.raises(Misused, match="is not a regular expression"):
        as_topics(None, letters)
