from pathlib import Path

from everlog.model.topics import TopicPartition
from everlog.pipelines.checkpoints import Checkpoint, read_checkpoints
from everlog.pipelines.lag import PartitionLag, flow_lags

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
HEAD = 'v1\n{"batchWatermarkMs":0}\n'


def a_checkpoint(path: Path, *sources: str, done: int, planned: int | None = None) -> None:
    for name in ("offsets", "commits"):
        (path / name).mkdir(parents=True, exist_ok=True)
    for batch in range((done if planned is None else planned) + 1):
        (path / "offsets" / str(batch)).write_text(HEAD + "\n".join(sources).replace("BATCH", str(batch)))
        (path / "offsets" / f".{batch}.crc").write_bytes(b"\x00")
    for batch in range(done + 1):
        (path / "commits" / str(batch)).write_text("v1\n{}")


def test_flows_have_the_names_that_sparks_events_give_them(tmp_path: Path) -> None:
    declared = tmp_path / "_checkpoints"
    offset = '{"orders":{"0":1}}'
    a_checkpoint(declared / "spark_catalog" / "default" / "orders" / "orders" / "0", offset, done=0)
    a_checkpoint(declared / "spark_catalog" / "default" / "orders" / "late" / "0", offset, done=0)
    a_checkpoint(declared / "spark_catalog" / "other" / "t" / "t" / "0", offset, done=0)
    a_checkpoint(declared / "large_orders" / "large" / "0", offset, done=0)
    a_checkpoint(tmp_path / "_streams" / "volume" / "0", offset, done=0)

    assert [checkpoint.flow for checkpoint in read_checkpoints(tmp_path)] == [
        "large",
        "late",
        "orders",
        "spark_catalog.other.t",
        "volume",
    ]


def test_what_counts_is_the_batch_that_is_done_and_not_the_one_begun(tmp_path: Path) -> None:
    a_checkpoint(tmp_path / "_streams" / "a" / "0", '{"orders":{"0":1BATCH}}', done=1, planned=2)

    [checkpoint] = read_checkpoints(tmp_path)

    assert checkpoint == Checkpoint("a", 1, {ORDERS_0: 11}, {ORDERS_0: 12})


def test_of_a_flow_that_was_refreshed_the_newest_checkpoint_counts(tmp_path: Path) -> None:
    for number in (2, 9, 10):
        a_checkpoint(tmp_path / "_streams" / "a" / str(number), f'{{"orders":{{"0":{number}}}}}', done=0)

    assert [checkpoint.done for checkpoint in read_checkpoints(tmp_path)] == [{ORDERS_0: 10}]


def test_other_sources_and_sources_without_an_offset_are_passed_over(tmp_path: Path) -> None:
    a_checkpoint(tmp_path / "_streams" / "a" / "0", '{"logOffset":4}', "-", '{"orders":{"1":5}}', "7", done=0)

    assert read_checkpoints(tmp_path)[0].done == {ORDERS_1: 5}


def test_flows_whose_sources_have_names_have_their_offsets(tmp_path: Path) -> None:
    place = tmp_path / "_streams" / "a" / "0"
    a_checkpoint(place, done=0)
    (place / "offsets" / "0").write_text('v2\n{}\nnew:{"orders":{"0":7}}\nold:-')

    assert read_checkpoints(tmp_path)[0].done == {ORDERS_0: 7}


def test_of_two_sources_on_one_topic_the_one_behind_counts(tmp_path: Path) -> None:
    a_checkpoint(tmp_path / "_streams" / "a" / "0", '{"orders":{"0":9,"1":2}}', '{"orders":{"0":4}}', done=0)

    assert read_checkpoints(tmp_path)[0].done == {ORDERS_0: 4, ORDERS_1: 2}


def test_no_storage_yet_has_no_checkpoints(tmp_path: Path) -> None:
    assert read_checkpoints(tmp_path / "storage") == []


def test_lag_counts_a_new_partition_from_its_beginning_and_says_nothing_of_topics_that_are_gone() -> None:
    checkpoints = [
        Checkpoint("a", 3, {ORDERS_0: 10}, {ORDERS_0: 10}),
        Checkpoint("b", 3, {TopicPartition("gone", 0): 4}),
        Checkpoint("c", 3),
    ]

    a, b, c = flow_lags(checkpoints, {ORDERS_0: 15, ORDERS_1: 2})

    assert a.partitions == (PartitionLag("orders", 0, 10, 15), PartitionLag("orders", 1, 0, 2))
    assert (a.lag, b.lag, c.lag) == (7, None, None)


def test_a_topic_that_was_made_anew_has_no_negative_lag() -> None:
    assert PartitionLag("orders", 0, 10, 3).lag == 0
