"""How much a trigger reads, how ranges are split, and what counts as lost."""

import pytest

from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition
from everlog.spark.source.offsets import DataLost, check_all_named, from_json, to_json
from everlog.spark.source.options import Limits
from everlog.spark.source.plan import (
    Admission,
    ReadRange,
    changes,
    limit_bytes,
    limit_offsets,
    lost_before_added,
    lost_behind_end,
    lost_with_partitions,
    raise_loss,
    ranges_between,
    runs_backwards,
    split_ranges,
)

A, B, C = (TopicPartition("t", index) for index in range(3))


def test_offsets_look_like_those_of_the_other_connector() -> None:
    assert to_json({B: 5, A: 3}) == {"t": {"0": 3, "1": 5}}
    assert from_json({"t": {"0": 3, "1": 5}}) == {A: 3, B: 5}


def test_partitions_share_the_limit_by_what_they_have() -> None:
    assert limit_offsets({A: 0, B: 10}, {A: 900, B: 110}, 100) == {A: 90, B: 20}


def test_a_limit_above_what_there_is_changes_nothing() -> None:
    assert limit_offsets({A: 0}, {A: 100}, 100) == {A: 100}


def test_no_partition_is_starved_by_another() -> None:
    limited = limit_offsets({A: 0, B: 0, C: 7}, {A: 1_000_000, B: 2, C: 7}, 10)
    assert limited == {A: 9, B: 1, C: 7}


def test_bytes_are_shared_by_what_records_take() -> None:
    sizes = {A: 100.0, B: 1000.0}
    assert limit_bytes({A: 0, B: 0}, {A: 100, B: 100}, 11_000, sizes) == {A: 10, B: 10}
    assert limit_bytes({A: 0, B: 0}, {A: 5, B: 5}, 11_000, sizes) == {A: 5, B: 5}


def test_a_record_above_the_limit_of_bytes_is_read() -> None:
    assert limit_bytes({A: 3}, {A: 5}, 1, {A: 1e6}) == {A: 4}


def test_a_partition_without_a_sample_is_taken_for_one_like_the_others() -> None:
    assert limit_bytes({A: 0, B: 0}, {A: 100, B: 100}, 1000, {A: 50.0}) == {A: 10, B: 10}
    assert limit_bytes({A: 0}, {A: 100}, 10 * 1024, {}) == {A: 10}


def test_a_trigger_waits_for_volume_but_not_for_ever() -> None:
    admission = Admission(Limits(min_offsets=10, max_delay_ms=1000))
    assert not admission.waits({A: 0}, {A: 0}, now_ms=0)

    assert admission.waits({A: 0}, {A: 9}, now_ms=0)
    assert admission.waits({A: 0}, {A: 9}, now_ms=999)
    assert not admission.waits({A: 0}, {A: 9}, now_ms=1000)
    assert admission.waits({A: 9}, {A: 18}, now_ms=1999)
    assert not admission.waits({A: 9}, {A: 19}, now_ms=1999)


def test_a_query_that_has_just_started_waits_for_nothing() -> None:
    """Started anew again and again it would never read otherwise."""
    admission = Admission(Limits(min_offsets=10, max_delay_ms=1000))

    assert not admission.waits({A: 0}, {A: 1}, now_ms=500)
    assert admission.waits({A: 1}, {A: 2}, now_ms=501)


def test_a_batch_that_would_run_backwards_is_told_by_its_partitions() -> None:
    assert runs_backwards({A: 5, B: 7}, {A: 5, B: 8}) is None
    assert runs_backwards({A: 10, B: 7}, {A: 5, B: 8}) == "t-0 from 10 to 5: expected no start behind its end"


def test_ranges_are_what_lies_between() -> None:
    assert ranges_between({A: 1, B: 5, C: 9}, {A: 4, B: 5, C: 7}) == [ReadRange("t", 0, 1, 4)]


def test_without_wishes_a_partition_is_a_task() -> None:
    ranges = [ReadRange("t", 0, 0, 10), ReadRange("t", 1, 0, 1000)]
    assert split_ranges(ranges, None, None) == ranges
    assert split_ranges(ranges, 2, None) == ranges


def test_large_ranges_are_split_and_small_ones_stay_whole() -> None:
    ranges = [ReadRange("t", 0, 0, 10), ReadRange("t", 1, 0, 1000)]

    made = split_ranges(ranges, 5, None)

    assert made[0] == ranges[0]
    assert [(part.start, part.end) for part in made[1:]] == [(0, 250), (250, 500), (500, 750), (750, 1000)]


def test_splits_cover_a_range_without_overlap_and_never_are_empty() -> None:
    made = split_ranges([ReadRange("t", 0, 7, 10)], 50, None)
    assert [(part.start, part.end) for part in made] == [(7, 8), (8, 9), (9, 10)]


def test_no_task_has_more_records_than_asked_for() -> None:
    made = split_ranges([ReadRange("t", 0, 0, 101)], None, 25)
    assert [part.size for part in made] == [20, 20, 20, 20, 21]
    assert sum(part.size for part in split_ranges(made, 9, 25)) == 101


def test_partitions_that_are_no_longer_chosen_are_not_lost() -> None:
    removed = changes({A, B}, {A}).removed

    assert lost_with_partitions(removed, still_there={A, B}) is None
    assert "do not exist any more" in (lost_with_partitions(removed, still_there={A}) or "")


def test_a_new_partition_lost_records_only_if_its_topic_was_read() -> None:
    assert lost_before_added([B], {"t"}, {B: 0}) is None
    assert lost_before_added([B], {"other"}, {B: 7}) is None
    assert "t-1 starts at offset 7" in (lost_before_added([B], {"t"}, {B: 7}) or "")


def test_an_offset_behind_the_end_is_lost_and_one_at_the_end_is_not() -> None:
    assert lost_behind_end({A: 10}, {A: 10}) is None
    assert "t-0 ends at 9, expected 10 or more" in (lost_behind_end({A: 10}, {A: 9}) or "")


def test_loss_is_an_error_unless_the_user_does_not_mind() -> None:
    assert raise_loss(None, fail=True) is None
    assert raise_loss("gone", fail=False) == "gone"
    with pytest.raises(DataLost, match=r"gone\. Set failOnDataLoss=false"):
        raise_loss("gone", fail=True)


def test_an_option_must_name_all_partitions_and_no_others() -> None:
    check_all_named("startingOffsets", [A, B], [B, A], "")
    with pytest.raises(ConfigError, match=r"not named: t-1; not read: t-2"):
        check_all_named("startingOffsets", [A, C], [A, B], "")
