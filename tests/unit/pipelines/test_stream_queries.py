from pathlib import Path
from typing import Any

import pytest

from everlog.model.errors import ConfigError
from everlog.pipelines.events import Event, FlowChanged
from everlog.pipelines.project import Project
from everlog.pipelines.stream_queries import StreamQueries, load_streams
from everlog.pipelines.streams import Stream


class Query:
    """A query as far as it is asked: running, or over with an error."""

    def __init__(self) -> None:
        self.isActive = True
        self.lastProgress: dict[str, Any] | None = None
        self.error: Exception | None = None

    def fail(self, error: str, batch: int | None = None) -> None:
        self.isActive, self.error = False, RuntimeError(error)
        self.lastProgress = None if batch is None else {"batchId": batch}

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False


class Writer:
    """What a stream's function returns; notes what it is given."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.queries: list[Query] = []

    def queryName(self, name: str) -> "Writer":
        return self._note("name", name)

    def option(self, key: str, value: str) -> "Writer":
        return self._note(key, value)

    def trigger(self, **kind: Any) -> "Writer":
        return self._note("trigger", kind)

    def start(self) -> Query:
        self.queries.append(Query())
        return self.queries[-1]

    def _note(self, key: str, value: Any) -> "Writer":
        self.given[key] = value
        return self


def a_project(root: Path) -> Project:
    return Project(root, root / "spark-pipeline.yml", "shop", (root / "storage").as_uri(), ())


def started(
    root: Path, *, once: bool = False, anew: bool = False
) -> tuple[StreamQueries, Writer, list[Event]]:
    writer = Writer()
    told: list[Event] = []
    queries = StreamQueries(None, a_project(root), told.append)
    queries.start(
        [Stream("volume", "2 seconds", lambda: writer)], once=once, anew={"volume"} if anew else set()
    )
    return queries, writer, told


def test_a_stream_gets_its_name_its_checkpoint_and_its_trigger(tmp_path: Path) -> None:
    _, once, _ = started(tmp_path, once=True)
    _, for_ever, _ = started(tmp_path)

    assert once.given == {
        "name": "volume",
        "checkpointLocation": f"file://{tmp_path}/storage/_streams/volume/0",
        "trigger": {"availableNow": True},
    }
    assert for_ever.given["trigger"] == {"processingTime": "2 seconds"}


def test_a_full_refresh_takes_the_next_number_and_later_runs_keep_to_it(tmp_path: Path) -> None:
    checkpoints = tmp_path / "storage" / "_streams" / "volume"
    (checkpoints / "9").mkdir(parents=True)
    (checkpoints / "10").mkdir()

    _, writer, _ = started(tmp_path, anew=True)
    assert writer.given["checkpointLocation"].endswith("/volume/11")

    (checkpoints / "11").mkdir()
    _, writer, _ = started(tmp_path)
    assert writer.given["checkpointLocation"].endswith("/volume/11")


def test_a_stream_that_fails_is_started_again_later_each_time_and_given_up_in_the_end(tmp_path: Path) -> None:
    queries, writer, told = started(tmp_path)

    writer.queries[0].fail("away")
    queries.restart_failed(3, 100.0)
    queries.restart_failed(3, 100.9)
    assert len(writer.queries) == 1
    queries.restart_failed(3, 101.0)
    assert len(writer.queries) == 2

    writer.queries[1].fail("away")
    queries.restart_failed(3, 102.0)
    queries.restart_failed(3, 103.9)
    assert len(writer.queries) == 2
    queries.restart_failed(3, 104.0)
    assert len(writer.queries) == 3
    assert told.count(FlowChanged("volume", "FAILED")) == 2

    writer.queries[2].fail("away for good")
    with pytest.raises(RuntimeError, match="away for good"):
        queries.restart_failed(3, 105.0)


def test_a_function_that_fails_when_it_is_called_again_is_a_failure_like_others(tmp_path: Path) -> None:
    """It may ask a cluster or a table that is away, as what the query failed for is."""
    writer = Writer()
    away: list[str] = []

    def declare() -> Writer:
        if away:
            raise TimeoutError(away[0])
        return writer

    told: list[Event] = []
    queries = StreamQueries(None, a_project(tmp_path), told.append)
    queries.start([Stream("volume", "2 seconds", declare)], once=False, anew=set())
    writer.queries[0].fail("away", batch=3)
    away.append("nobody answers")

    queries.restart_failed(3, 100.0)
    queries.restart_failed(3, 101.0)
    assert told.count(FlowChanged("volume", "FAILED")) == 2
    queries.restart_failed(3, 102.9)
    away.clear()
    queries.restart_failed(3, 103.0)
    assert len(writer.queries) == 2

    writer.queries[1].fail("away")
    away.append("nobody answers")
    with pytest.raises(RuntimeError, match="away"):
        queries.restart_failed(3, 104.0)


def test_a_function_that_fails_for_good_ends_the_run(tmp_path: Path) -> None:
    writer = Writer()
    answers: list[Any] = [writer]
    queries = StreamQueries(None, a_project(tmp_path), lambda _: None)
    queries.start([Stream("volume", "2 seconds", lambda: answers[-1])], once=False, anew=set())
    writer.queries[0].fail("away", batch=3)
    answers.append("no writer")

    for now in (100.0, 101.0):
        queries.restart_failed(3, now)
    for now in (103.0, 104.0):
        with pytest.raises(ConfigError, match="returned str: expected a writer"):
            queries.restart_failed(3, now)


def test_when_one_of_several_cannot_be_started_the_others_are_not_started_twice(tmp_path: Path) -> None:
    first, second = Writer(), Writer()
    away = True

    def declare() -> Writer:
        if away:
            raise TimeoutError("nobody answers")
        return second

    streams = [Stream("first", "2 seconds", lambda: first), Stream("second", "2 seconds", declare)]
    queries = StreamQueries(None, a_project(tmp_path), lambda _: None)
    with pytest.raises(TimeoutError):
        queries.start(streams, once=False, anew={"first", "second"})
    away = False
    (tmp_path / "storage" / "_streams" / "first" / "0").mkdir(parents=True)
    queries.start(streams, once=False, anew={"first", "second"})

    assert (len(first.queries), len(second.queries)) == (1, 1)
    assert first.given["checkpointLocation"].endswith("/first/0")


def test_a_batch_that_was_done_between_failures_forgives_them(tmp_path: Path) -> None:
    queries, writer, _ = started(tmp_path)

    for attempt in range(10):
        writer.queries[-1].fail("away", batch=attempt)
        queries.restart_failed(3, attempt * 10.0)
        queries.restart_failed(3, attempt * 10.0 + 1)

    assert len(writer.queries) == 11


def test_a_single_run_is_done_when_all_are_and_raises_what_failed(tmp_path: Path) -> None:
    queries, writer, told = started(tmp_path, once=True)
    assert not queries.done()
    writer.queries[0].isActive = False
    assert queries.done()
    assert queries.done()
    assert told.count(FlowChanged("volume", "COMPLETED")) == 1

    queries, writer, _ = started(tmp_path, once=True)
    writer.queries[0].fail("no topic")
    with pytest.raises(RuntimeError, match="no topic"):
        queries.done()


def test_a_python_that_was_slow_to_start_is_tried_again_a_few_times(tmp_path: Path) -> None:
    queries, writer, _ = started(tmp_path, once=True)

    for _ in range(3):
        writer.queries[-1].fail("[STREAM_FAILED] …: Python worker failed to connect back.")
        assert not queries.done()
    assert len(writer.queries) == 4

    writer.queries[-1].fail("[STREAM_FAILED] …: Python worker failed to connect back.")
    with pytest.raises(RuntimeError):
        queries.done()


def test_a_run_for_ever_is_patient_with_a_slow_machine(tmp_path: Path) -> None:
    queries, writer, _ = started(tmp_path)

    for attempt in range(8):
        writer.queries[-1].fail("Python worker failed to connect back.")
        queries.restart_failed(3, attempt * 100.0)
        queries.restart_failed(3, attempt * 100.0 + 30)
    assert len(writer.queries) == 9

    writer.queries[-1].fail("Python worker failed to connect back.")
    with pytest.raises(RuntimeError):
        queries.restart_failed(3, 1000.0)


def test_what_is_no_writer_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    queries = StreamQueries(None, a_project(tmp_path), lambda _: None)

    with pytest.raises(ConfigError, match="stream 'volume' returned int: expected a writer"):
        queries.check([Stream("volume", "1 second", lambda: 3)])


def test_files_of_streams_get_spark_and_must_declare_something(tmp_path: Path) -> None:
    folder = tmp_path / "streams"
    folder.mkdir()
    (folder / "a.py").write_text(
        "from everlog.pipelines import stream\n@stream\ndef a():\n    return spark\n"
    )
    [stream] = load_streams(a_project(tmp_path), "the session")
    assert (stream.name, stream.declare()) == ("a", "the session")

    (folder / "b.py").write_text((folder / "a.py").read_text())
    with pytest.raises(ConfigError, match=r"'a' is declared twice, the second time in .*b\.py"):
        load_streams(a_project(tmp_path), None)

    (folder / "b.py").write_text("x = 1\n")
    with pytest.raises(ConfigError, match=r"b\.py declares no stream"):
        load_streams(a_project(tmp_path), None)
