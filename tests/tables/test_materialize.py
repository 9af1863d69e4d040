"""A topic kept as a table without Spark, on a real broker."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everlog import Admin, EverlogError, Producer, TopicPartition
from everlog.tables import materialize as materializing
from everlog.tables.errors import BadRecords, DataLost, TableMisdeclared
from everlog.tables.materialize import Pace, Progress, materialize
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table
from tests.tables.builders import a_spec, ids, order, records, state

ONCE = Pace(until_end=True)

NewTopic = Callable[..., str]


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    return new_topic(2)


@pytest.fixture
def table_spec(tmp_path: Path, everlog_bootstrap: str, topic: str) -> TableSpec:
    return a_spec(tmp_path, name=f"o-{topic}", topic=topic, bootstrap=everlog_bootstrap)


def send(spec: TableSpec, numbers: range, *, transactional: bool = False, abort: bool = False) -> None:
    options: Any = {"transactional_id": f"t-{spec.topic}"} if transactional else {}
    with Producer(spec.bootstrap or "", **options) as producer:
        if transactional:
            producer.init_transactions()
            producer.begin_transaction()
        for n in numbers:
            producer.send(spec.topic, order(n), key=b"k%d" % (n % 5), partition=n % 2)
        if transactional:
            # What is not sent yet is dropped by an abort, and would not be in the log.
            producer.flush()
            (producer.abort_transaction if abort else producer.commit_transaction)()


def test_history_is_taken_in_and_then_what_is_new(table_spec: TableSpec, everlog_bootstrap: str) -> None:
    send(table_spec, range(20))
    told: list[Progress] = []

    materialize(table_spec, ONCE, on_progress=told.append)
    assert materialize(table_spec, ONCE, on_progress=told.append) is None
    send(table_spec, range(20, 30))
    materialize(table_spec, ONCE, on_progress=told.append)

    table = open_table(table_spec, create=False)
    assert ids(table) == list(range(30))
    assert [(each.batch_id, each.rows, each.total_lag) for each in told] == [(0, 20, 0), (1, 10, 0)]
    assert told[-1].rows_per_s > 0
    assert table.offsets() == {TopicPartition(table_spec.topic, n): 15 for n in range(2)}
    with Admin(everlog_bootstrap) as admin:
        lag = admin.group_lag(f"everlog-table.{table_spec.name}")
    assert [(entry.place.partition, entry.lag) for entry in lag] == [(0, 0), (1, 0)]


def test_aborted_records_and_markers_are_no_rows_and_no_gaps(table_spec: TableSpec) -> None:
    send(table_spec, range(10), transactional=True)
    send(table_spec, range(10, 20), transactional=True, abort=True)
    materialize(table_spec, ONCE)
    send(table_spec, range(20, 30), transactional=True)

    materialize(table_spec, ONCE)

    table = open_table(table_spec)
    assert ids(table) == [*range(10), *range(20, 30)]
    spans = table.coverage().spans
    assert {place: len(each) for place, each in spans.items()} == dict.fromkeys(spans, 1)
    assert all(each[0][0] == 0 for each in spans.values())


def test_a_gap_in_the_table_is_filled_and_the_rest_not_read_into_it_twice(table_spec: TableSpec) -> None:
    send(table_spec, range(40))
    table = open_table(table_spec)
    # A live job brought offsets 5 to 9 of partition 0 in: numbers 10, 12, 14, 16, 18.
    live = [(offset, b"k", order(offset * 2)) for offset in range(5, 10)]
    table.commit("live", 0, [table.stage([records(live, topic=table_spec.topic)])])

    materialize(table_spec, ONCE)

    assert ids(table) == list(range(40))


def test_latest_begins_with_what_comes(table_spec: TableSpec, everlog_bootstrap: str) -> None:
    send(table_spec, range(10))
    pace = Pace(start="latest", batch_s=0.2)
    stop, began = threading.Event(), threading.Event()
    told: list[Progress] = []

    class Watching(materializing._Runner):  # pyright: ignore[reportPrivateUsage] -- to know when it is in place
        def _go_to_table(self) -> None:
            super()._go_to_table()
            began.set()

    runner = Watching(table_spec, pace, "live", {})

    def note(progress: Progress) -> None:
        told.append(progress)
        if sum(each.rows for each in told) >= 6:
            stop.set()

    thread = threading.Thread(target=runner.run, args=(note, stop))
    thread.start()
    try:
        assert began.wait(60)
        send(table_spec, range(10, 14))
        # A partition that comes now has nothing that was there before.
        with Admin(everlog_bootstrap) as admin:
            admin.create_partitions({table_spec.topic: 3})
        with Producer(everlog_bootstrap) as producer:
            for n in (14, 15):
                producer.send(table_spec.topic, order(n), partition=2).result(30)
        thread.join(60)
        assert not thread.is_alive()
    finally:
        stop.set()
        thread.join(60)
        runner.close()

    assert ids(open_table(table_spec)) == list(range(10, 16))


def test_partitions_that_are_added_are_taken_in(table_spec: TableSpec, everlog_bootstrap: str) -> None:
    send(table_spec, range(4))
    materialize(table_spec, ONCE)
    with Admin(everlog_bootstrap) as admin:
        admin.create_partitions({table_spec.topic: 3})
    with Producer(everlog_bootstrap) as producer:
        producer.send(table_spec.topic, order(4), partition=2).result(30)

    materialize(table_spec, ONCE)

    assert ids(open_table(table_spec)) == list(range(5))


def test_two_at_once_make_one_table(table_spec: TableSpec) -> None:
    send(table_spec, range(400))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            materialize(table_spec, Pace(until_end=True, batch_bytes=1000))
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert failures == []
    assert ids(open_table(table_spec)) == list(range(400))


def test_the_current_state_of_a_changelog(table_spec: TableSpec) -> None:
    spec = replace(table_spec, mode="upsert")
    send(spec, range(20))
    with Producer(spec.bootstrap or "") as producer:
        producer.send(spec.topic, None, key=b"k0", partition=0).result(30)
        producer.send(spec.topic, None, key=b"k3", partition=1).result(30)

    materialize(spec, ONCE)

    # Each key is in both partitions, by the parity of the number; they are told apart by time.
    found = state(open_table(spec))
    assert found.keys() == {b"k1", b"k2", b"k4"}


def test_records_that_are_gone_are_told_and_skipped_if_asked(
    table_spec: TableSpec, everlog_bootstrap: str
) -> None:
    send(table_spec, range(4))
    materialize(table_spec, ONCE)
    send(table_spec, range(4, 20))
    with Admin(everlog_bootstrap) as admin:
        admin.delete_records({TopicPartition(table_spec.topic, 0): 6})

    with pytest.raises(DataLost, match=f"offsets 2 to 5 of {table_spec.topic}-0 are not in the table"):
        materialize(table_spec, ONCE)
    materialize(table_spec, replace(ONCE, skip_lost=True))

    assert ids(open_table(table_spec)) == [0, 1, 2, 3, *(n for n in range(4, 20) if n % 2 or n >= 12)]


def test_a_log_that_begins_later_has_no_gap_before_it(table_spec: TableSpec, everlog_bootstrap: str) -> None:
    send(table_spec, range(20))
    with Admin(everlog_bootstrap) as admin:
        admin.delete_records({TopicPartition(table_spec.topic, 0): 6})

    materialize(table_spec, ONCE)

    assert open_table(table_spec).coverage().spans == {
        TopicPartition(table_spec.topic, n): ((0, 10),) for n in range(2)
    }


def test_bad_records_without_a_dead_letter_topic_stop_the_table(table_spec: TableSpec) -> None:
    with Producer(table_spec.bootstrap or "") as producer:
        producer.send(table_spec.topic, b"oops", partition=1).result(30)

    with pytest.raises(
        BadRecords, match=f"{table_spec.topic}-1 at offset 0: not JSON.*declare dead_letter_topic"
    ):
        materialize(table_spec, ONCE)

    assert open_table(table_spec).last_batch("materializer") is None


def test_what_is_missing_is_named(table_spec: TableSpec, fresh_topic: Callable[[], str]) -> None:
    with pytest.raises(TableMisdeclared, match="bootstrap is missing"):
        materialize(replace(table_spec, bootstrap=None))
    with Admin(table_spec.bootstrap or "") as admin:
        missing = fresh_topic()
        with pytest.raises(EverlogError) as caught:
            materialize(replace(table_spec, topic=missing), ONCE)
        assert missing in str(caught.value)
        assert missing not in admin.list_topics()
