"""Files of a checkpoint's `offsets`, as Spark writes them: both versions, and sources of all kinds."""

from everlog.model.topics import TopicPartition
from everlog.spark.offset_log import offsets_of_source, read_offset_log

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def a_file(*sources: str, version: str = "v1") -> str:
    return "\n".join([version, '{"batchWatermarkMs":0}', *sources])


def test_sources_of_other_kinds_are_passed_over() -> None:
    text = a_file('{"logOffset":3}', "-", '{"orders":{"0":5}}', "17", '{"audit":{"1":8}}')

    noted = read_offset_log(text)
    assert noted.ends == {ORDERS_0: 5, TopicPartition("audit", 1): 8}
    assert not noted.shared
    assert offsets_of_source('{"a":{"x":1}}') == {}
    assert offsets_of_source("nonsense") == {}


def test_a_file_of_sources_with_names_has_the_same_offsets() -> None:
    text = a_file('payments:{"orders":{"0":5,"1":7}}', "rates:-", '0:{"audit":{"1":8}}', version="v2")

    assert read_offset_log(text).ends == {ORDERS_0: 5, ORDERS_1: 7, TopicPartition("audit", 1): 8}


def test_of_two_sources_of_a_partition_the_one_behind_counts() -> None:
    noted = read_offset_log(a_file('{"orders":{"0":100}}', '{"orders":{"0":105}}'))

    assert noted.ends == {ORDERS_0: 100}
    assert noted.shared == {ORDERS_0}


def test_a_file_cut_short_has_nothing() -> None:
    for text in ("", "v1", "v2\n{}", "v2\n{}\nnot an offset"):
        assert not read_offset_log(text).ends
