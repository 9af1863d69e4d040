"""What the long run of kills keeps: each verdict, where to go on, and that every step has its turn."""

from dataclasses import replace
from itertools import groupby
from pathlib import Path

from tests.spark.kills.ledger import Entry, Ledger, Progress, summary
from tests.spark.kills.plan import (
    CLUSTER,
    COMMIT_STEPS,
    HERE,
    SOMETIME,
    TABLES,
    TASK_STEPS,
    Kill,
    cheap_first,
    plan,
    rounds,
    steps_of,
)


def an_entry(number: int, *, losses: int = 0, duplicates: int = 0, sink: str = "topic") -> Entry:
    return Entry(
        number, "local 0", sink, "broker", "deciding", 1, "abc", 0, 2.5, 40, 40, duplicates, losses
    )  # fmt: skip


def test_a_run_goes_on_where_the_last_one_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "kills" / "ledger.jsonl"
    wanted = [Kill(HERE, "topic", "broker", "deciding")] * 3 + [Kill(CLUSTER, "topic", "broker", "deciding")]
    Ledger(path, seed=1).write([an_entry(0), an_entry(1)])
    with path.open("a") as file:
        file.write('{"number": 3, "life": "lo')

    again = Ledger(path, seed=1)

    assert again.left_of(wanted) == [(2, wanted[2]), (3, wanted[3])]
    assert len(Ledger(path, seed=2).left_of(wanted)) == 4
    again.write([an_entry(2)])
    assert Ledger(path, seed=1).left_of(wanted) == [(3, wanted[3])]


def test_every_victim_has_its_turn_at_every_step() -> None:
    first = plan(200, seed=1)
    topic = {(kill.kind, kill.step) for kill in first if kill.sink == "topic"}

    assert len(first) == 200
    everywhere = {*TASK_STEPS, *COMMIT_STEPS, SOMETIME}
    for victim in ("broker", "driver", "executor"):
        assert {step for kind, step in topic if kind == victim} == everywhere, victim
    assert {step for kind, step in topic if kind == "task"} == {*TASK_STEPS, SOMETIME}
    assert {step for kind, step in topic if kind == "committer"} == {*COMMIT_STEPS}
    for table in TABLES:
        tasks, commits = steps_of(table)
        found = {(kill.kind, kill.step) for kill in first if kill.sink == table}
        assert {("task", step) for step in tasks} <= found, table
        assert {("committer", step) for step in commits} <= found, table
        assert {("driver", SOMETIME), ("broker", SOMETIME)} <= found, table


def test_more_kills_are_the_same_kills_and_then_others() -> None:
    assert plan(400, seed=3)[:250] == plan(250, seed=3)
    assert plan(400, seed=3) != plan(400, seed=4)


def test_kills_can_be_asked_for_by_sink_victim_moment_and_life() -> None:
    by_chance = plan(40, 1, ["driver,executor", "sometime"])
    of_a_table = plan(30, 1, ["delta-upsert"])
    rows = plan(30, 1, ["rows", "executor,driver"])

    assert {(kill.kind, kill.step) for kill in by_chance} == {("driver", SOMETIME), ("executor", SOMETIME)}
    assert {kill.sink for kill in of_a_table} == {"delta-upsert"}
    assert {kill.kind for kill in of_a_table} >= {"task", "committer", "driver", "broker"}
    assert {kill.sink for kill in rows} == {"parquet-rows", "iceberg-rows", "delta-rows"}
    assert plan(90, 1, ["rows", "executor,driver"])[:30] == rows


def test_kills_with_low_latency_are_no_kills_without(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    wanted = [Kill(HERE, "topic", "broker", "deciding")]
    Ledger(path, seed=1).write([replace(an_entry(0), low_latency=True)])

    found = Ledger(path, seed=1)

    assert found.left_of(wanted) == [(0, wanted[0])]
    assert found.left_of(wanted, low_latency=True) == []
    assert (len(Ledger(path, None).entries), Ledger(path, 2).of_other_seeds) == (1, 1)
    assert "1 with lowLatency=true" in summary(found.entries)


def test_kills_that_start_no_jvm_come_first_and_those_of_a_sink_together() -> None:
    numbered = list(enumerate(plan(300, seed=1)))

    found = cheap_first(numbered)

    assert sorted(found, key=lambda one: one[0]) == numbered
    costly = [kill.kind in ("driver", "executor") for _, kill in found]
    assert costly == sorted(costly)
    blocks = [
        block
        for block, _ in groupby(
            (kill.life, kill.sink, cost) for (_, kill), cost in zip(found, costly, strict=True)
        )
    ]
    assert len(blocks) == len(set(blocks))


def test_a_round_has_one_sink_in_one_life() -> None:
    numbered = list(enumerate(plan(300, seed=1)))

    found = rounds(numbered, seed=1)

    assert [one for each in found for one in each] == numbered
    assert {len(each) for each in found} == {1, 2, 3}
    assert all(len({(kill.life, kill.sink) for _, kill in each}) == 1 for each in found)


def test_the_bar_tells_kills_so_far_and_the_time_that_is_left(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", seed=1)
    ledger.write([an_entry(0)])
    times = iter([0.0, 60.0])
    progress = Progress(ledger, 48, now=lambda: next(times))
    ledger.write([an_entry(1), an_entry(2, losses=1)])

    assert progress.line() == "[#.......................] 3/48 kills, 1 wrong, 30.0 s each, 22 min left"


def test_the_summary_counts_by_victim_and_sink_and_tells_what_is_wrong() -> None:
    told = summary(
        [an_entry(0), an_entry(1, sink="delta-rows"), an_entry(2, sink="delta-rows", duplicates=3)]
    )

    assert "delta-rows          2      2      1" in told
    assert "all                 3      3      1" in told
    assert told.endswith("3 kills, 80 rows in, 3 duplicates, 0 losses, 1 kills wrong")
