"""D2: tasks and driver of the sink on a real broker, each called as Spark would call it, without its JVM."""

import threading
import uuid
from collections.abc import Generator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from everlog import Admin, EverlogError, TopicPartition
from everlog.model.errors import ConfigError
from everlog.spark.sink import decisions, task
from everlog.spark.sink.deciding import Decider
from everlog.spark.sink.driver import commit_stream_batch, commit_write
from everlog.spark.sink.errors import SinkFailed
from everlog.spark.sink.names import DECISIONS, pointer_group, transactional_id_prefix
from everlog.spark.sink.options import SinkOptions
from everlog.spark.sink.producers import BatchPlace
from everlog.spark.sink.protocol import Gone, commit_batch
from everlog.spark.sink.task import write_rows
from everlog.spark.sink.writers import place_of_write
from tests import brokers
from tests.spark.conftest import NewTopic
from tests.spark.sink_query import Query, committed_values, wait_for
from tests.tables.s3_server import s3_server

pa: Any = import_module("pyarrow")
fs: Any = import_module("pyarrow.fs")


@pytest.fixture(scope="module", params=["two-phase", "time-out"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A broker that lets transactions be held, and one that does not."""
    flags = ["--override", "transaction.two.phase.commit.enable=true"] if request.param == "two-phase" else []
    errors = tmp_path_factory.mktemp("broker") / "stderr"
    broker = brokers.start(["up", "--ephemeral", "--port", "0", *flags], errors)
    yield broker.bootstrap
    broker.stop()


@pytest.fixture
def everlog_bootstrap(cluster: str) -> str:
    """The broker that `new_topic` uses."""
    return cluster


@pytest.fixture
def query(cluster: str, new_topic: NewTopic) -> Generator[Query]:
    made = Query(cluster, new_topic(2))
    yield made
    made.decider.close()


def test_a_batch_is_seen_as_a_whole_once_it_is_committed(query: Query) -> None:
    for batch in range(3):
        done = [query.task(batch, f"{batch}-a", f"{batch}-b"), query.task(batch, f"{batch}-c")]
        assert [one.rows for one in done] == [2, 1]
        assert len(query.seen()) == 3 * batch
        query.commit(batch, done)
    wait_for(lambda: len(query.seen()) == 9)
    assert query.open_transactions() == []


def test_a_batch_that_was_committed_is_not_written_again(query: Query) -> None:
    query.commit(0, [query.task(0, "a")])
    query.restart()

    again = query.task(0, "a")

    assert again.skipped
    query.commit(0, [again])
    query.commit(1, [query.task(1, "b")])
    wait_for(lambda: query.seen() == ["a", "b"])


@pytest.mark.parametrize("step", ["ShutOutOthers", "Hold", "FindOpen"])
def test_a_driver_that_dies_before_it_decides_leaves_nothing(query: Query, step: str) -> None:
    query.commit_up_to(step, 0, [query.task(0, "a"), query.task(0, "b")])
    query.restart()

    again = [query.task(0, "a"), query.task(0, "b")]
    assert not any(one.skipped for one in again)
    query.commit(0, again)

    wait_for(lambda: query.seen() == ["a", "b"])
    assert query.open_transactions() == []


@pytest.mark.parametrize("step", ["Decide", "Commit", "Abort"])
def test_a_driver_that_dies_after_it_decided_has_its_batch_finished(query: Query, step: str) -> None:
    query.commit_up_to(step, 0, [query.task(0, "a"), query.task(0, "b")])
    query.restart()

    again = [query.task(0, "a"), query.task(0, "b")]
    assert all(one.skipped for one in again)
    query.commit(0, again)

    wait_for(lambda: query.seen() == ["a", "b"])
    assert query.open_transactions() == []


def test_a_decided_batch_that_nobody_runs_again_is_finished_by_the_next(query: Query) -> None:
    """Spark runs again what it has not noted as done; who numbers writes need not."""
    query.commit_up_to("Decide", 0, [query.task(0, "a"), query.task(0, "b")])
    query.restart()

    query.commit(1, [query.task(1, "c")])

    wait_for(lambda: query.seen() == ["a", "b", "c"])
    query.commit(0, [query.task(0, "a"), query.task(0, "b")])
    assert query.seen() == ["a", "b", "c"]
    assert query.open_transactions() == []


def test_tasks_that_wrote_though_the_batch_was_decided_do_not_count(query: Query) -> None:
    early = query.task(0, "a")
    query.run = uuid.uuid4().hex
    late = query.task(0, "a")
    query.commit_up_to("Decide", 0, [early])
    query.restart()

    query.commit(0, [late])

    wait_for(lambda: query.seen() == ["a"])
    assert query.open_transactions() == []


def test_attempts_that_do_not_count_are_aborted(query: Query) -> None:
    lost = query.task(0, "a")
    won = query.task(0, "a")
    query.commit(0, [won])
    assert lost.transaction is not None
    wait_for(lambda: query.seen() == ["a"])
    assert query.open_transactions() == []


def test_an_attempt_that_begins_when_another_has_won_leaves_nothing_open(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_QUICK_S", 0.0)
    query.commit(0, [query.task(0, "a")])

    def too_late() -> Generator[Any]:
        # Before the first row there is no transaction, so the driver finds none.
        query.commit(1, [query.task(1, "b")])
        yield pa.record_batch({"value": pa.array(["b"])})

    late = write_rows(query.options, BatchPlace(query.id, query.run, 1), ["value"], too_late())

    assert (late.skipped, late.transaction) == (True, None)
    assert query.open_transactions() == []
    wait_for(lambda: query.seen() == ["a", "b"])


def test_an_attempt_at_a_write_without_a_name_leaves_nothing_open_when_another_has_won(query: Query) -> None:
    place = BatchPlace(query.id, query.run, 0, named=False)
    rows = pa.record_batch({"value": pa.array(["a"])})

    def too_late() -> Generator[Any]:
        won = write_rows(query.options, place, ["value"], [rows])
        assert won.transaction is not None
        commit_write(query.options, [won])
        yield rows

    late = write_rows(query.options, place, ["value"], too_late())

    assert (late.skipped, late.transaction) == (True, None)
    assert query.open_transactions() == []
    wait_for(lambda: query.seen() == ["a"])


@pytest.mark.parametrize("late", [False, True])
def test_an_old_driver_cannot_decide_once_another_has(query: Query, late: bool) -> None:
    old, run = query.decider, query.run
    query.commit(0, [query.task(0, "a")])
    first = [] if late else [query.task(1, "b")]
    query.restart()
    query.commit(1, [query.task(1, "b")])

    query.decider, new = old, query.decider
    if late:
        query.run, new_run = run, query.run
        first = [query.task(1, "b")]
        query.run = new_run
        query.commit(1, first)  # It is shut out, finds that the batch is decided, and ends its own attempt.
    else:
        with pytest.raises(Gone):  # The new driver has ended that attempt.
            query.commit(1, first)

    query.decider = new
    query.commit(2, [query.task(2, "c")])
    wait_for(lambda: query.seen() == ["a", "b", "c"])
    assert query.open_transactions() == []
    old.close()


def test_a_transaction_that_was_aborted_is_noticed_before_the_decision(query: Query) -> None:
    done = [query.task(0, "a"), query.task(0, "b")]
    assert done[1].transaction is not None
    with Admin(query.bootstrap) as admin:
        admin.fence_producer(done[1].transaction.transactional_id)

    with pytest.raises(Gone, match="open no more"):
        query.commit(0, done)

    assert query.open_transactions() == []
    query.restart()
    query.commit(0, [query.task(0, "a"), query.task(0, "b")])
    wait_for(lambda: query.seen() == ["a", "b"])


def test_a_loss_after_the_decision_is_told_until_it_is_accepted(query: Query) -> None:
    done = [query.task(0, "a"), query.task(0, "b")]
    query.commit_up_to("Decide", 0, done)
    assert done[1].transaction is not None
    with Admin(query.bootstrap) as admin:
        admin.fence_producer(done[1].transaction.transactional_id)
    query.restart()
    again = [query.task(0, "a"), query.task(0, "b")]
    for _ in range(2):
        with pytest.raises(SinkFailed, match=r"1 of its 2 transactions were aborted.*acceptLostBatch=0"):
            query.commit(0, again)

    options = {"kafka.bootstrap.servers": query.bootstrap, "topic": query.topic, "acceptLostBatch": "0"}
    Decider(SinkOptions.read(options), query.id).run(lambda: commit_batch(0, [], 2))

    wait_for(lambda: query.seen() == ["a"])


def test_a_failed_batch_is_aborted_unless_it_was_decided(query: Query) -> None:
    failed = [query.task(0, "a")]
    query.abort(0, failed)
    assert query.open_transactions() == []
    query.restart()
    decided = [query.task(0, "b")]
    query.commit_up_to("Decide", 0, decided)
    query.abort(0, decided)
    query.restart()
    query.commit(0, [query.task(0, "b")])
    wait_for(lambda: query.seen() == ["b"])


def test_a_first_batch_that_fails_is_aborted_though_nobody_has_decided_anything(query: Query) -> None:
    with Admin(query.bootstrap) as admin:
        if DECISIONS in admin.list_topics(internal=True):
            admin.delete_topics([DECISIONS])
    query.abort(0, [query.task(0, "a")])
    assert query.open_transactions() == []


def test_a_decision_is_found_though_the_group_was_forgotten(query: Query) -> None:
    query.commit(0, [query.task(0, "a")])
    query.commit_up_to("Decide", 1, [query.task(1, "b")])
    with Admin(query.bootstrap) as admin:
        admin.delete_groups([pointer_group(query.id)])
    query.restart()

    query.commit(1, [query.task(1, "b")])

    wait_for(lambda: query.seen() == ["a", "b"])
    assert query.open_transactions() == []


def test_many_writes_of_one_name_are_each_done_once_and_the_decisions_of_all_are_searched_once(
    cluster: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has a name of its own has to be searched among all that was ever decided."""
    topic, searched = new_topic(), list[str]()
    search: Any = vars(decisions)["_search"]

    def counted(options: SinkOptions, query: str) -> Any:
        searched.append(query)
        return search(options, query)

    monkeypatch.setattr(decisions, "_search", counted)
    for number in (0, 1, 1, 2, 3, 3, 2, 4):
        options = a_write(cluster, topic, writeId=f"w-{topic}", batchId=str(number))
        row = pa.RecordBatch.from_pydict({"value": [str(number)]})
        commit_write(options, [write_rows(options, place_of_write(options), ["value"], [row])])

    assert committed_values(cluster, topic) == ["0", "1", "2", "3", "4"]
    assert searched == [f"write-w-{topic}"]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_numbered_writes_use_the_same_connections(cluster: str, new_topic: NewTopic, guarantee: str) -> None:
    """A worker lives for as long as its query, which may have a write of another number each second."""
    topic, threads = new_topic(), list[int]()
    for number in range(6):
        options = a_write(
            cluster, topic, writeId=f"w-{topic}", batchId=str(number), deliveryGuarantee=guarantee
        )
        row = pa.RecordBatch.from_pydict({"value": [str(number)]})
        commit_write(options, [write_rows(options, place_of_write(options), ["value"], [row])])
        threads.append(threading.active_count())

    assert threads[2:] == [threads[1]] * 4


def a_write(cluster: str, topic: str, **options: str) -> SinkOptions:
    return SinkOptions.read({"kafka.bootstrap.servers": cluster, "topic": topic, **options})


def test_ids_that_the_cluster_has_forgotten_are_open_no_more(query: Query) -> None:
    from everlog.client.core.txn.prepared import PreparedTransaction

    forgotten = PreparedTransaction(f"{transactional_id_prefix(query.id)}forgotten", 9_999, 0)
    with pytest.raises(Gone, match="open no more"):
        query.decider.run(lambda: commit_batch(0, [forgotten], 0))
    query.commit(0, [query.task(0, "a")])
    wait_for(lambda: query.seen() == ["a"])


def test_another_query_that_decides_is_not_in_the_way(cluster: str, new_topic: NewTopic) -> None:
    from everlog.spark.sink.decisions import decided_batch

    queries = [Query(cluster, new_topic()) for _ in range(8)]
    for one in queries:
        one.commit(0, [one.task(0, "a")])
    with Admin(cluster) as admin:
        assert [decided_batch(admin, one.id) for one in queries] == [0] * 8
        assert decided_batch(admin, "nobody") is None
    for one in queries:
        one.decider.close()


@pytest.mark.parametrize("place", ["here", "in S3"])
def test_the_source_shows_its_progress_with_the_batch(
    cluster: str, new_topic: NewTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    source, sink = new_topic(), new_topic()
    noted = f'v1\n{{}}\n{{"{source}": {{"0": 17}}}}'
    group = f"g-{source}"

    def committed(checkpoint: str) -> dict[TopicPartition, int]:
        query = Query(cluster, sink, commitGroup=group, checkpointLocation=checkpoint)
        commit_stream_batch(query.options, [query.task(0, "a")], 0)
        with Admin(cluster) as admin:
            found = admin.list_group_offsets(group, require_stable=True)
        return {place: entry.offset for place, entry in found.items()}

    if place == "here":
        (tmp_path / "offsets").mkdir()
        (tmp_path / "offsets" / "0").write_text(noted)
        assert committed(str(tmp_path)) == {TopicPartition(source, 0): 17}
        return
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with fs.FileSystem.from_uri("s3://lake")[0].open_output_stream(f"lake/{sink}/offsets/0") as file:
            file.write(noted.encode())
        assert committed(f"s3a://lake/{sink}") == {TopicPartition(source, 0): 17}


def test_a_batch_counts_though_its_checkpoint_is_where_only_spark_can_read(
    cluster: str, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    sink = new_topic()
    query = Query(cluster, sink, commitGroup=f"g-{sink}", checkpointLocation="dbfs:/checkpoint")

    commit_stream_batch(query.options, [query.task(0, "a")], 0)

    assert query.seen() == ["a"]
    [said] = [record.getMessage() for record in caplog.records if "commitGroup" in record.getMessage()]
    assert (
        "the batch is written, its offsets are not committed, as checkpointLocation 'dbfs:/checkpoint'"
        in said
    )
    assert "commitGroup as an option of the source" in said
    with Admin(cluster) as admin:
        assert f"g-{sink}" not in [group.group_id for group in admin.list_groups()]


def test_progress_that_the_cluster_cannot_show_is_told_and_the_batch_not_committed(
    cluster: str, new_topic: NewTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "_PROGRESS_S", 1.0)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"of-another-cluster": {"0": 17}}')
    query = Query(cluster, new_topic(), commitGroup="g", checkpointLocation=str(tmp_path))
    with pytest.raises(SinkFailed, match="option commitGroup='g'"):
        commit_stream_batch(query.options, [query.task(0, "a")], 0)
    assert query.seen() == []
    with pytest.raises(SinkFailed, match="batch 1 was given what tasks wrote for"):
        commit_stream_batch(query.options, [query.task(0, "a")], 1)


# What a user gets wrong.


def a_task(bootstrap: str, rows: Any, columns: Sequence[str], **options: str) -> None:
    given = {"kafka.bootstrap.servers": bootstrap, **options}
    write_rows(SinkOptions.read(given), BatchPlace("q", "r", 0), columns, [rows])


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_rows_that_cannot_be_written_are_named(cluster: str, new_topic: NewTopic, guarantee: str) -> None:
    topic = new_topic()
    large = pa.record_batch({"value": [b"x" * 3_000_000]})
    with pytest.raises(EverlogError, match=f"row for {topic}-0 takes 30.*max_request_size"):
        a_task(cluster, large, ["value"], topic=topic, deliveryGuarantee=guarantee)
    nowhere = pa.record_batch({"value": ["a", "b"], "topic": [topic, None]})
    with pytest.raises(SinkFailed, match="1 of 2 rows have no topic, the first of them is number 1"):
        a_task(cluster, nowhere, ["value"], deliveryGuarantee=guarantee)
    beyond = pa.record_batch({"value": ["a"], "partition": pa.array([7], pa.int32())})
    with pytest.raises(EverlogError, match=f"{topic}-7|partition 7|7"):
        a_task(cluster, beyond, ["value", "partition"], topic=topic, deliveryGuarantee=guarantee)
    assert committed_values(cluster, topic) == []


def test_a_time_out_that_is_too_long_is_told_or_made_to_fit(cluster: str, new_topic: NewTopic) -> None:
    rows = pa.record_batch({"value": ["a"]})
    options = {"topic": new_topic(), "kafka.transaction.timeout.ms": "100000000"}
    with pytest.raises(SinkFailed, match=r"kafka\.transaction\.timeout\.ms=100000000.*at most 900000"):
        a_task(cluster, rows, ["value"], **options)


def test_a_server_that_is_not_there_is_told(new_topic: NewTopic) -> None:
    rows = pa.record_batch({"value": ["a"]})
    with pytest.raises(EverlogError, match=r"127\.0\.0\.1:9"):
        a_task("127.0.0.1:9", rows, ["value"], topic=new_topic())
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers"):
        SinkOptions.read({"topic": "t"})
