"""`everlog table run --engine spark` as users have it, in turns with the engine that needs no Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest

from everlog import Admin, NewTopic, Producer
from everlog.tables.declared import declared_table
from everlog.tables.table import open_table
from tests.e2e.program import Ran, everlog
from tests.spark.told import STACKS

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("pipeline"), pytest.mark.timeout(1800)]

PATIENCE_S = 300.0


def test_engines_take_turns_and_each_record_is_there_once(
    java_for_runs: dict[str, str],
    everlog_bootstrap: str,
    fresh_topic: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in java_for_runs.items():
        monkeypatch.setenv(name, value)
    topic = fresh_topic()
    with Admin(everlog_bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 2)])
    place = f"file://{tmp_path}/läke/{topic}"
    declared = called(
        everlog_bootstrap, "declare", topic, "--topic", topic, "--schema", "id long", "--location", place
    )
    assert declared.code == 0, declared.err

    engines = ("local", "spark", "local", "spark")
    for turn, engine in enumerate(engines):
        with Producer(everlog_bootstrap) as producer:
            for number in range(turn * 10, turn * 10 + 10):
                producer.send(topic, b'{"id": %d}' % number, partition=number % 2)
        ran = run(everlog_bootstrap, topic, engine, "--json")
        assert ran.code == 0, ran.err
        assert (ran.json["engine"], ran.json["lag"]) == (engine, 0)
        # Spark goes on from its checkpoint, which does not know of another's turn.
        assert ran.json["rows"] == (20 if turn == 3 else 10)
        table = open_table(declared_table(everlog_bootstrap, topic), create=False)
        assert sorted(table.read(["id"])["id"].to_pylist()) == list(range(turn * 10 + 10))
    assert (tmp_path / "läke" / "_checkpoints" / topic / "offsets").is_dir()

    with Admin(everlog_bootstrap) as admin:
        admin.delete_topics([topic])
    ran = run(everlog_bootstrap, topic, "spark")
    assert ran.code == 1
    [line] = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert topic in line
    assert not [sign for sign in STACKS if sign in ran.err + ran.out], ran


def called(bootstrap: str, *arguments: str) -> Ran:
    return everlog("table", *arguments, bootstrap=bootstrap, timeout_s=PATIENCE_S)


def run(bootstrap: str, table: str, engine: str, *more: str) -> Ran:
    spark = ("--master", "local[2]") if engine == "spark" else ()
    return called(bootstrap, "run", table, "--engine", engine, "--once", *spark, *more)
