"""What a task reads of a range: all of it, once, in order; and what is a loss and what is not."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

import everlog
from everlog.client.core.errors import TimedOut
from everlog.model.errors import ConfigError
from everlog.spark.source.columns import column_options
from everlog.spark.source.offsets import DataLost
from everlog.spark.source.plan import ReadRange
from everlog.spark.source.reading import read_range
from everlog.values.arrow import pa
from tests import brokers
from tests.spark.conftest import NewTopic
from tests.spark.source_reads import RECORD, at, delete, options, plan, rows, send, values

NUMBERS = [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_range_is_cut_within_batches(everlog_bootstrap: str, new_topic: NewTopic, compression: str) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS, compression_type=compression)
    given = options(everlog_bootstrap, topic)

    assert values(given, [ReadRange(topic, 0, 0, 100)]) == NUMBERS
    assert values(given, [ReadRange(topic, 0, 33, 67)]) == NUMBERS[33:67]
    assert values(given, [ReadRange(topic, 0, 99, 100)]) == NUMBERS[99:]


def test_columns_are_as_spark_lays_them_out(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2, retention_ms="-1")
    with everlog.Producer(everlog_bootstrap) as producer:
        producer.send(topic, b"v", key=b"k", partition=1, timestamp=1_700_000_000_123, headers=[("h", b"x")])
        producer.send(topic, None, key=None, partition=1, timestamp=1_700_000_000_124)
        producer.flush(timeout=60)
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    schema = RECORD.append(pa.field("headers", pa.list_(pa.field("element", header))))
    given = options(everlog_bootstrap, topic, includeHeaders="true")

    first, second = rows(given, plan(given), schema)

    assert {name: first[name] for name in ("key", "value", "topic", "partition", "offset")} == {
        "key": b"k",
        "value": b"v",
        "topic": topic,
        "partition": 1,
        "offset": 0,
    }
    assert first["timestamp"].timestamp() == 1_700_000_000.123
    assert first["timestampType"] == 0
    assert first["headers"] == [{"key": "h", "value": b"x"}]
    assert (second["key"], second["value"], second["headers"]) == (None, None, None)


def test_markers_and_aborted_records_are_passed_over(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with everlog.Producer(everlog_bootstrap, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        for round_number in range(4):
            producer.begin_transaction()
            for number in range(5):
                producer.send(topic, b"%d.%d" % (round_number, number), partition=0)
            producer.flush(timeout=60)
            if round_number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    committed = [b"%d.%d" % (round_number, number) for round_number in (0, 2) for number in range(5)]
    given = options(everlog_bootstrap, topic)

    (whole,) = plan(given)
    assert whole.end == 24  # Twenty records and four markers: the range ends with a marker.
    began = time.monotonic()
    assert values(given) == committed
    # A range of nothing but aborted records and markers is read to its end without a wait.
    assert values(given, [ReadRange(topic, 0, 18, 24)]) == []
    assert time.monotonic() - began < 20

    # Nor is it late, however little patience there is, while it gets on.
    small = {"kafka.max.partition.fetch.bytes": "1"}
    assert values(options(everlog_bootstrap, topic, **small)) == committed  # Connections are there now.
    hasty = replace(options(everlog_bootstrap, topic, **small), poll_timeout_s=0.0)
    assert values(hasty, [ReadRange(topic, 0, 6, 12)]) == []

    everything = options(everlog_bootstrap, topic, readCommitted="false")
    assert len(values(everything)) == 20


def test_a_range_ends_where_the_first_open_transaction_begins(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, [b"before"])
    with everlog.Producer(everlog_bootstrap, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0)
        producer.flush(timeout=60)
        given = options(everlog_bootstrap, topic)
        assert [(each.start, each.end) for each in plan(given)] == [(0, 1)]

        # An end that was asked for is waited for, and no loss: the records are there.
        asked = {"endingOffsets": f'{{"{topic}": {{"0": 2}}}}', "kafkaConsumer.pollTimeoutMs": "300"}
        with pytest.raises(TimedOut, match=r"did not come within 0\.3 s"):
            values(options(everlog_bootstrap, topic, **asked))
        producer.commit_transaction()
    assert values(given) == [b"before", b"open"]


def test_compacted_offsets_are_no_loss(tmp_path: Path) -> None:
    settings = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        "segment.bytes": "1048576",
        "segment.ms": "100",
    }
    flags = ["--override", "log.cleaner.backoff.ms=100"]
    broker = brokers.start_up(tmp_path / "data", tmp_path / "errors", *flags)
    try:
        with everlog.Admin(broker.bootstrap) as admin:
            admin.create_topics([everlog.NewTopic("t", 1, configs=settings)])
        with everlog.Producer(broker.bootstrap, compression_type="none") as producer:
            for number in range(60):
                producer.send("t", b"%02d" % number + b"." * 100_000, key=b"ab"[number % 2 :][:1]).result(60)
        given = options(broker.bootstrap, "t")
        (whole,) = plan(given)
        assert whole.size == 60
        deadline = time.monotonic() + 60
        while (left := len(values(given, [whole]))) == 60:
            assert time.monotonic() < deadline, "the broker has not compacted anything"
            time.sleep(0.1)
        assert 2 <= left < 60
        # Ranges that begin and end in gaps.
        pieces = [ReadRange("t", 0, start, start + 1) for start in range(60)]
        assert len(values(given, pieces)) <= left
        assert [value[:2] for value in values(given, pieces)][-2:] == [b"58", b"59"]
    finally:
        broker.stop()


def test_records_that_were_deleted_are_a_loss(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS)
    planned = plan(options(everlog_bootstrap, topic))
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.delete_records({at(topic): 40})

    gone = f"offsets 0 to 39 of {topic}-0 were deleted before they could be read: the log starts at 40"
    with pytest.raises(DataLost, match=gone):
        values(options(everlog_bootstrap, topic), planned)
    unmoved = options(everlog_bootstrap, topic, failOnDataLoss="false")
    assert values(unmoved, planned) == NUMBERS[40:]
    assert values(unmoved, [ReadRange(topic, 0, 10, 20)]) == []


def test_offsets_behind_the_end_are_a_loss(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS)
    asked = {"endingOffsets": f'{{"{topic}": {{"0": 200}}}}'}

    with pytest.raises(DataLost, match=f"option endingOffsets: .*{topic}-0 ends at 100, expected 200"):
        plan(options(everlog_bootstrap, topic, **asked))
    assert values(options(everlog_bootstrap, topic, failOnDataLoss="false", **asked)) == NUMBERS

    behind = [ReadRange(topic, 0, 150, 200)]
    with pytest.raises(DataLost, match=r"offsets 150 to 199 .* do not exist: the log ends at 100"):
        values(options(everlog_bootstrap, topic), behind)
    assert values(options(everlog_bootstrap, topic, failOnDataLoss="false"), behind) == []


def test_a_topic_that_is_deleted_under_a_task_is_a_loss(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS)
    planned = plan(options(everlog_bootstrap, topic))
    delete(everlog_bootstrap, topic)

    with pytest.raises(DataLost, match=f"{topic}-0 was deleted while its offsets 0 to 99"):
        values(options(everlog_bootstrap, topic), planned)
    assert values(options(everlog_bootstrap, topic, failOnDataLoss="false"), planned) == []


def test_who_stops_early_leaves_the_connection_fit_for_the_next(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, (b"x" * 1000 for _ in range(3000)), compression_type="none")
    given = options(everlog_bootstrap, topic, **{"kafka.max.partition.fetch.bytes": "100000"})
    reader = read_range(given, plan(given)[0], column_options(RECORD, given))
    reader.close()
    started = read_range(given, plan(given)[0], column_options(RECORD, given))
    assert next(started).num_rows > 0
    started.close()
    assert len(values(given)) == 3000


def test_starts_and_ends_by_time_and_by_group(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2, retention_ms="-1")
    with everlog.Producer(everlog_bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0, timestamp=1_000_000 + number * 1000)
        producer.flush(timeout=60)
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.alter_group_offsets(f"g-{topic}", {at(topic): 4})

    def planned(**more: str) -> list[tuple[int, int]]:
        return [(each.start, each.end) for each in plan(options(everlog_bootstrap, topic, **more))]

    moment = json.dumps({topic: {"0": 1003500, "1": 0}})
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    assert planned(startingTimestamp="1003500", **strategy) == [(4, 10)]
    assert planned(startingOffsetsByTimestamp=moment, **strategy) == [(4, 10)]
    assert planned(endingTimestamp="1003000") == [(0, 3)]
    assert planned(startingOffsets=f"group:g-{topic}") == [(4, 10)]
    assert planned(endingOffsets=f"group:g-{topic}") == [(0, 4)]
    backwards = f"options startingTimestamp and endingTimestamp: {topic}-0 from 5 to 2: expected no start"
    with pytest.raises(everlog.ConfigError, match=backwards):
        planned(startingTimestamp="1005000", endingTimestamp="1002000", **strategy)
    with pytest.raises(everlog.ConfigError, match=f"{topic}-1 has no record of 1003500 ms or later"):
        planned(startingTimestamp="1003500")
    with pytest.raises(everlog.ConfigError, match="the group 'nobody' has committed nothing"):
        planned(startingOffsets="group:nobody")
    with pytest.raises(everlog.ConfigError, match=f"must name all partitions .*not named: {topic}-1"):
        planned(startingOffsets=json.dumps({topic: {"0": 3}}))


def test_a_batch_from_an_offset_back_to_an_earlier_one_is_a_mistake(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    send(everlog_bootstrap, topic, NUMBERS[:20])

    def of_both(first: int) -> str:
        return json.dumps({topic: {"0": first, "1": 0}})

    def planned(start: int, end: str) -> list[tuple[int, int]]:
        bounds = {"startingOffsets": of_both(start), "endingOffsets": end}
        return [(each.start, each.end) for each in plan(options(everlog_bootstrap, topic, **bounds))]

    with pytest.raises(
        ConfigError, match=f"options startingOffsets and endingOffsets: {topic}-0 from 10 to 5: expected"
    ):
        planned(10, of_both(5))
    assert planned(10, of_both(10)) == []
    # What is there, or was read by others, may well lie behind: there is nothing to read then.
    assert planned(20, "latest") == []
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.alter_group_offsets(f"g-{topic}", {at(topic): 5})
    assert planned(10, f"group:g-{topic}") == []
