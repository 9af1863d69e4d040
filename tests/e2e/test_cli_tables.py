"""Topics kept as tables by the command line: declared, run, looked at, tended, sent back, dropped."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import everlog as library
from everlog.model.topics import TopicPartition
from everlog.tables.declared import declared_table
from everlog.tables.table import open_table
from tests.e2e.program import Ran, environment, everlog

pytestmark = pytest.mark.e2e

FreshTopic = Callable[[], str]
WAIT_SECONDS = 60.0


def called(bootstrap: str, *arguments: str) -> Ran:
    ran = everlog("table", *arguments, bootstrap=bootstrap)
    assert ran.code == 0, ran.err
    return ran


def send(bootstrap: str, topic: str, *values: bytes) -> None:
    with library.Producer(bootstrap) as producer:
        for value in values:
            producer.send(topic, value, b"k", partition=0).result(WAIT_SECONDS)


@pytest.fixture
def topic(everlog_bootstrap: str, fresh_topic: FreshTopic) -> str:
    """A topic with three records that can be read, and one that cannot."""
    name = fresh_topic()
    with library.Admin(everlog_bootstrap) as admin:
        admin.create_topic(name, 1)
    send(everlog_bootstrap, name, *(b'{"id": %d, "item": "i"}' % n for n in range(3)), b"broken")
    return name


def declare(bootstrap: str, topic: str, folder: Path, *more: str) -> Ran:
    return called(
        bootstrap, "declare", topic, "--topic", topic, "--location", str(folder / "lake" / topic), "--schema",
        "id long, item string", "--dead-letters", f"{topic}.dlq", *more,
    )  # fmt: skip


def test_a_declared_table_is_run_once_and_described(
    everlog_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    dry = declare(everlog_bootstrap, topic, tmp_path, "--dry-run", "--json")
    assert (dry.json["dry_run"], dry.json["table"]["format"]) == (True, "parquet")
    assert topic not in called(everlog_bootstrap, "list").out
    declare(everlog_bootstrap, topic, tmp_path)
    (listed,) = [
        entry
        for entry in called(everlog_bootstrap, "list", "--json").json["tables"]
        if entry["name"] == topic
    ]
    assert (listed["topic"], listed["schema"]) == (topic, "id long, item string")
    before = called(everlog_bootstrap, "describe", topic, "--json").json
    assert (before["state"], before["lag"], before["commits"]) == (None, 4, [])

    ran = called(everlog_bootstrap, "run", topic, "--once", "--json").json

    assert (ran["rows"], ran["dead_letters"], ran["lag"], ran["engine"]) == (3, 1, 0, "local")
    after = called(everlog_bootstrap, "describe", topic, "--json").json
    assert after["version"] == 1, "the version of the envelope is not that of the table"
    assert (after["state"]["rows"], after["state"]["files"], after["lag"]) == (3, 1, 0)
    assert after["partitions"] == [{"topic": topic, "partition": 0, "offset": 4, "end_offset": 4, "lag": 0}]
    batch = after["commits"][-1]
    assert (batch["operation"], batch["batch_id"]) == ("batch", 0)
    assert batch["offsets"] == [{"topic": topic, "partition": 0, "start_offset": 0, "end_offset": 4}]
    text = called(everlog_bootstrap, "describe", topic).out
    assert "0: 0-3" in text
    assert "0 records behind" in text
    again = called(everlog_bootstrap, "run", topic, "--once", "--json").json
    assert (again["rows"], again["batches"]) == (0, 0)


def test_small_files_are_put_together_and_old_commits_go(
    everlog_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    declare(everlog_bootstrap, topic, tmp_path)
    for number in range(3):
        called(everlog_bootstrap, "run", topic, "--once")
        send(everlog_bootstrap, topic, b'{"id": %d}' % (10 + number))
    assert called(everlog_bootstrap, "compact", topic, "--dry-run", "--json").json["files_before"] == 3

    done = called(everlog_bootstrap, "compact", topic, "--json").json

    assert (done["files_before"], done["files_after"], done["rows"]) == (3, 1, 5)
    would = called(everlog_bootstrap, "expire", topic, "--older-than", "0s", "--dry-run", "--json").json
    gone = called(everlog_bootstrap, "expire", topic, "--older-than", "0s", "--yes", "--json").json
    assert (gone["commits"], gone["files"] >= 3) == (would["commits"], True)
    table = open_table(declared_table(everlog_bootstrap, topic), create=False)
    assert sorted(table.read(["id"])["id"].to_pylist()) == [0, 1, 2, 10, 11]
    wrong = everlog("table", "expire", topic, "--older-than", "soon", bootstrap=everlog_bootstrap)
    assert (wrong.code, "expected a span" in wrong.err) == (2, True)


def test_a_table_goes_back_to_a_topic_once_and_is_dropped(
    everlog_bootstrap: str, topic: str, fresh_topic: FreshTopic, tmp_path: Path
) -> None:
    declare(everlog_bootstrap, topic, tmp_path, "--format", "delta", "--mode", "upsert", "--key", "id")
    called(everlog_bootstrap, "run", topic, "--once")
    back = fresh_topic()
    with library.Admin(everlog_bootstrap) as admin:
        admin.create_topic(back, 1)
    assert called(everlog_bootstrap, "to-topic", topic, back, "--dry-run", "--json").json["rows"] == 3

    first = called(everlog_bootstrap, "to-topic", topic, back, "--key", "id", "--json").json
    second = called(everlog_bootstrap, "to-topic", topic, back, "--key", "id", "--json").json

    assert (first["rows"], second["rows"]) == (3, 0)
    found: list[library.ConsumerRecord] = []
    with library.Consumer(everlog_bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(back, 0)])
        consumer.seek_to_beginning()
        while len(found) < 3:
            found += consumer.poll(WAIT_SECONDS)
    assert sorted((record.key, json.loads(record.value)["id"]) for record in found) == [
        (b"0", 0), (b"1", 1), (b"2", 2),
    ]  # fmt: skip
    dry = called(everlog_bootstrap, "drop", topic, "--with-files", "--dry-run", "--json").json
    assert (dry["dropped"], (tmp_path / "lake" / topic).exists()) == (False, True)
    gone = called(everlog_bootstrap, "drop", topic, "--with-files", "--yes", "--json").json
    assert (gone["dropped"], gone["rows_removed"]) == (True, 3)
    missing = everlog("table", "describe", topic, bootstrap=everlog_bootstrap)
    assert missing.code == 1
    assert f"table {topic} is not declared" in missing.err


def test_backfill_brings_what_a_table_began_behind(
    everlog_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    declare(everlog_bootstrap, topic, tmp_path)

    def ids() -> list[int]:
        found = open_table(declared_table(everlog_bootstrap, topic)).read(["id"])["id"].to_pylist()
        return sorted(found)

    with following(everlog_bootstrap, topic, "--from", "latest") as process:
        # Where it begins is not told: what is written before that is history, too.
        sent = 10
        deadline = time.monotonic() + WAIT_SECONDS
        while not (began := ids()):
            assert time.monotonic() < deadline, process.poll()
            send(everlog_bootstrap, topic, b'{"id": %d}' % sent)
            sent += 1
            time.sleep(0.1)
        missing = 4 + began[0] - 10
        assert not {0, 1, 2}.intersection(began)
        dry = called(everlog_bootstrap, "backfill", topic, "--dry-run", "--json").json
        assert dry["offsets"] >= missing

        done = called(everlog_bootstrap, "backfill", topic, "--json").json

        assert done["rows"] >= missing - 1, "one of the history cannot be read"
        assert (done["dead_letters"], done["lag"]) == (1, 0)
        send(everlog_bootstrap, topic, b'{"id": %d}' % sent)
        with library.Admin(everlog_bootstrap) as admin:
            _wait_for_group(admin, f"everlog-table.{topic}", 4 + sent + 1 - 10)
        ended = ended_by_ctrl_c(process)
    assert (ended["dead_letters"], ended["lag"]) == (0, 0)
    assert ids() == [0, 1, 2, *range(10, sent + 1)]
    assert called(everlog_bootstrap, "backfill", topic, "--dry-run", "--json").json["offsets"] == 0


def test_a_table_that_follows_its_topic_ends_cleanly_when_told_to(
    everlog_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    declare(everlog_bootstrap, topic, tmp_path)
    with following(everlog_bootstrap, topic) as process:
        with library.Admin(everlog_bootstrap) as admin:
            _wait_for_group(admin, f"everlog-table.{topic}", 4)
        ended = ended_by_ctrl_c(process)
    assert (ended["rows"], ended["dead_letters"], ended["lag"]) == (3, 1, 0)


@contextmanager
def following(bootstrap: str, topic: str, *more: str) -> Generator["subprocess.Popen[str]"]:
    """`everlog table run` that follows its topic; who leaves without having ended it kills it."""
    with subprocess.Popen(
        [sys.executable, "-m", "everlog.cli", "table", "run", topic, "--every", "0.2", "--json", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(EVERLOG_BOOTSTRAP=bootstrap),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended_by_ctrl_c(process: "subprocess.Popen[str]") -> Any:
    """What it says when it was told to end."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, err
    return json.loads(out)


def _wait_for_group(admin: library.Admin, group: str, offset: int) -> None:
    """Until the table's offsets are shown by its group."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        found = admin.list_group_offsets(group)
        if [entry.offset for entry in found.values()] == [offset]:
            return
        time.sleep(0.05)
    pytest.fail(f"group {group} did not come to offset {offset}")


def test_what_will_not_do_is_told(everlog_bootstrap: str, topic: str, tmp_path: Path) -> None:
    declare(everlog_bootstrap, topic, tmp_path)
    again = everlog(
        "table", "declare", topic, "--topic", topic, "--location", str(tmp_path), bootstrap=everlog_bootstrap
    )
    assert (again.code, "is declared already" in again.err) == (1, True)
    nowhere = everlog("table", "declare", "t", "--topic", topic, bootstrap=everlog_bootstrap)
    assert (nowhere.code, "--location is missing" in nowhere.err) == (2, True)
    ddl = everlog(
        "table", "declare", "t", "--topic", topic, "--location", "x", "--schema", "id number",
        bootstrap=everlog_bootstrap,
    )  # fmt: skip
    assert (ddl.code, "found 'number', expected a type" in ddl.err) == (1, True)
    called(
        everlog_bootstrap, "declare", topic, "--topic", topic, "--location", str(tmp_path / "t"),
        "--schema", "id long", "--replace",
    )  # fmt: skip
    stopped = everlog("table", "run", topic, "--once", bootstrap=everlog_bootstrap)
    assert (stopped.code, f"{topic}-0 at offset 3" in stopped.err) == (1, True)
