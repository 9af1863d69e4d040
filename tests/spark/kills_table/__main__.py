"""The long run: `python -m tests.spark.kills_table --kills 40 --small 200 --seed 1`."""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests import brokers
from tests.spark.kills_table.driver import DriverProcess
from tests.spark.kills_table.killing import COMMIT_MOMENTS, MOMENTS
from tests.spark.kills_table.scene import Scene
from tests.spark.kills_table.small import TABLES as SMALL_TABLES
from tests.spark.kills_table.small import run_small

TABLES = (
    ("parquet", "append"),
    ("iceberg", "append"),
    ("delta", "append"),
    ("iceberg", "upsert"),
    ("delta", "upsert"),
    ("iceberg", "rows"),
    ("delta", "rows"),
)
KINDS = (
    *(("worker", moment) for moment in MOMENTS),
    ("driver", "at random"),
    *(("driver", moment) for moment in COMMIT_MOMENTS),
    ("driver", "mid-write"),
)
RECORDS = 150
ROWS_A_BATCH = 100


def main() -> int:
    """Kill until there are enough kills; 0 if each table holds each input once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", type=int, default=200, help="kills without a JVM, before those of Spark")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    began = time.monotonic()
    wrong: list[str] = []
    if options.small:
        with tempfile.TemporaryDirectory(prefix="everlog-kills-table-") as name:
            wrong, deaths = run_small(Path(name), options.small, options.seed)
        _tell(wrong, deaths, f"{len(SMALL_TABLES)} tables without a JVM", time.monotonic() - began)
    if wrong or not options.kills:
        return 1 if wrong else 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="everlog-kills-table-") as name:
        folder = Path(name)
        broker = brokers.start(["up", "--ephemeral", "--port", "0"], folder / "broker-stderr")
        driver = DriverProcess(folder / "spark")
        try:
            problems, kills, checks = _kill(broker.bootstrap, folder, driver, chance, options.kills)
        finally:
            driver.stop()
            broker.stop()
    _tell(problems, kills, f"{driver.starts} drivers of Spark, {checks} checks", time.monotonic() - began)
    return 1 if problems else 0


def _tell(problems: list[str], kills: "Counter[str]", what: str, seconds: float) -> None:
    for problem in problems:
        print(f"WRONG {problem}")
    print(f"{kills.total()} kills, {what}, {len(problems)} wrong, {seconds:.0f} s", flush=True)
    for kind, count in sorted(kills.items()):
        print(f"  {count:3} {kind}", flush=True)


def _kill(
    bootstrap: str, folder: Path, driver: DriverProcess, chance: random.Random, wanted: int
) -> tuple[list[str], "Counter[str]", int]:
    scenes = [Scene.make(bootstrap, folder, f"t-{form}-{mode}", form, mode) for form, mode in TABLES]
    kills: Counter[str] = Counter()
    problems: list[str] = []
    checks = 0
    turn = 0
    while sum(kills.values()) < wanted and turn < 3 * wanted:
        scene = scenes[turn % len(scenes)]
        victim, moment = chance.choice(KINDS)
        turn += 1
        scene.feed(RECORDS)
        kill_after = None
        if moment == "at random":
            kill_after = chance.uniform(0.3, 6.0)
        else:
            scene.arm(victim, moment)
        said = driver.run(scene.job, ROWS_A_BATCH, kill_after)
        died = said is not None and (scene.fired() or moment == "at random")
        scene.fired()
        if died:
            kills[f"{victim} {moment} ({scene.job.table_format} {scene.job.mode})"] += 1
        name = f"{victim} {moment}, {scene.job.table_format} {scene.job.mode}"
        print(f"{sum(kills.values()):4} {name}: {said or 'lived'}"[:150], flush=True)
        if turn % 5 == 0 or sum(kills.values()) >= wanted:
            problems += _settled(scene, driver)
            checks += 1
    for scene in scenes:
        problems += _settled(scene, driver)
        checks += 1
    return problems, kills, checks


def _settled(scene: Scene, driver: DriverProcess) -> list[str]:
    """Let the query finish undisturbed, and look at the table."""
    said = driver.run(scene.job, 10 * ROWS_A_BATCH)
    if said is not None:
        return [f"{scene.job.table_format} {scene.job.mode}: the query did not recover: {said}"]
    problem = scene.problem()
    return [] if problem is None else [problem]


if __name__ == "__main__":
    sys.exit(main())
