"""`everlog pipeline run` killed with SIGKILL in the midst of its work: topics and tables have each row once.

`EVERLOG_PIPELINE_KILLS=20 pytest tests/pipelines/test_kills.py` kills so often.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import everlog
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table
from tests.pipelines.command import MASTER, PATIENCE_S, Piped, produce, read
from tests.pipelines.test_templates import parquet_rows
from tests.spark.java_here import require_java

ROWS = 200
"""New with each run: five batches of the flows that read the topic."""
TOPICS = ("declared", "streamed", "mirrored.orders")
"""Those that have each order once."""
AT_LEAST = "plain"
"""That which has each at least once."""
DECISIONS = "__everlog_decisions"

SPEC = """
name: killed
storage: storage
libraries:
  - glob:
      include: transformations/**
configuration:
  everlog.bootstrap.servers: 127.0.0.1:9092
"""

TOPICS_TOML = "".join(
    f'[[topics]]\nname = "{name}"\npartitions = 2\n' for name in ("orders", "declared", "streamed", AT_LEAST)
)

READ = """
servers = spark.conf.get("everlog.bootstrap.servers")

def read(**options):
    return (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "40")
        .options(**options)
        .load()
    )
"""

DECLARED = f"""
from pyspark import pipelines as dp
from pyspark.sql import functions as F
{READ}
@dp.table
def orders():
    return read().select(F.from_json(F.col("value").cast("string"), "id long").alias("o")).select("o.*")

dp.create_sink("copies", "everlog", {{"kafka.bootstrap.servers": servers, "topic": "declared"}})

@dp.append_flow(target="copies")
def declared():
    return read().select("key", "value")

dp.create_sink("rows", "everlog_table", {{
    "kafka.bootstrap.servers": servers,
    "path": spark.conf.get("everlog.storage") + "/lake/orders",
    "topic": "orders",
    "tableFormat": "parquet",
    "schema": "id long",
    "mode": "append",
}})

@dp.append_flow(target="rows")
def kept():
    return read()
"""

SQL = "CREATE MATERIALIZED VIEW counted AS SELECT id, count(*) AS times FROM orders GROUP BY id;\n"

STREAM = f"""
from everlog.pipelines import stream
from everlog.spark.mirror import mirror_batches
{READ}
@stream(trigger="100 milliseconds")
def streamed():
    return (
        read().select("key", "value").writeStream.format("everlog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "streamed")
    )

@stream(trigger="100 milliseconds")
def plain():
    return (
        read().select("key", "value").writeStream.format("everlog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "{AT_LEAST}")
        .option("deliveryGuarantee", "at_least_once")
    )

@stream(trigger="100 milliseconds")
def mirrored():
    batches = mirror_batches(servers, servers, topic="mirrored.{{topic}}")
    return read(includeHeaders="true").writeStream.foreachBatch(batches)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("pipeline"),
    pytest.mark.timeout(3600 + 300 * int(os.environ.get("EVERLOG_PIPELINE_KILLS", "0"))),
]


@dataclass(frozen=True)
class Kill:
    """Who is to die, and when."""

    victim: str
    """One of VICTIMS."""
    moment: str
    """One of MOMENTS."""
    continuous: bool
    after_s: float = 0.0
    """So much later than the moment."""


VICTIMS = ("all", "java", "runner", "command")
TOLD = {"java": "the Java that runs Spark", "runner": "the process that runs Spark"}
END_S = 120.0
MOMENTS = (
    "a batch of orders begun",
    "a batch of declared begun",
    "a batch of kept begun",
    "a batch of streamed begun",
    "declared written to",
    "streamed written to",
    "plain written to",
    "mirrored.orders written to",
    "a file of the table written",
    "a batch decided",
)
FEW = (
    Kill("java", "a file of the table written", continuous=False),
    Kill("command", "streamed written to", continuous=True),
    Kill("all", "declared written to", continuous=False),
    Kill("java", "mirrored.orders written to", continuous=False),
    Kill("all", "plain written to", continuous=True),
)


def kills() -> list[Kill]:
    """A few that differ, or as many as are asked for: victims and moments in turn, half of them later."""
    chance = random.Random(1)
    every = [Kill(victim, moment, chance.random() < 0.5) for victim in VICTIMS for moment in MOMENTS]
    chance.shuffle(every)
    many = int(os.environ.get("EVERLOG_PIPELINE_KILLS", "0"))
    if not many:
        return list(FEW)
    found = list(FEW)[:many]
    while len(found) < many:
        kill = every[len(found) % len(every)]
        found.append(
            Kill(kill.victim, kill.moment, kill.continuous, chance.choice((0.0, chance.uniform(0.0, 1.0))))
        )
    return found


def test_each_order_is_there_once_though_the_run_is_killed_again_and_again(
    tmp_path: Path, java_for_runs: dict[str, str]
) -> None:
    require_java()
    with everlog.Cluster() as cluster:
        # A Java that is killed cannot be one that others wait for: each run has its own, but for the last.
        killed = Piped(a_project(tmp_path / "killed"), cluster.bootstrap_servers, {})
        killed.call("seed", "--topics-only")
        fed = before = 0
        for number, kill in enumerate(planned := kills()):
            fed += feed(killed, fed)
            began = time.monotonic()
            before = run_until_killed(killed, kill, before)
            took = time.monotonic() - began

            print(f"kill {number + 1}: {kill.victim}, {kill.moment}, {took:.0f} s", flush=True)
            for topic in (name for name in TOPICS if end_of(killed, name)):
                found = Counter(numbers(killed, topic))
                assert [n for n, times in found.items() if times > 1] == [], (topic, kill)
        fed += feed(killed, fed)

        Piped(killed.root, killed.bootstrap, java_for_runs).run()

        once = list(range(fed))
        for topic in TOPICS:
            assert sorted(numbers(killed, topic)) == once, topic
        assert sorted(set(numbers(killed, AT_LEAST))) == once
        assert sorted(kept(killed)) == once
        counted = parquet_rows(killed.storage / "warehouse" / "counted")
        assert sorted((row["id"], row["times"]) for row in counted) == [(n, 1) for n in once]
        print(f"{len(planned)} kills, {fed} orders, each once in three topics and two tables")


def a_project(root: Path) -> Path:
    """Declared flows to a topic and to both kinds of table; streams to topics, one of them a mirror."""
    for name, text in {
        "spark-pipeline.yml": SPEC,
        "everlog.toml": TOPICS_TOML,
        "transformations/flows.py": DECLARED,
        "transformations/counted.sql": SQL,
        "streams/streamed.py": STREAM,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def feed(project: Piped, start: int) -> int:
    """Write so many more orders; how many."""
    produce(
        project.bootstrap,
        "orders",
        ({"key": f"c-{n % 7}", "value": {"id": n}, "partition": n % 2} for n in range(start, start + ROWS)),
    )
    return ROWS


def numbers(project: Piped, topic: str) -> list[int]:
    """The orders that are committed in a topic."""
    return [json.loads(record.value or b"")["id"] for record in read(project.bootstrap, topic)]


def kept(project: Piped) -> list[int]:
    """The orders in the lake table."""
    place = str(project.storage / "lake" / "orders")
    spec = TableSpec(name="orders", topic="orders", location=place, schema="id long")
    found: list[int] = open_table(spec, create=False).read(["id"]).column("id").to_pylist()
    return found


SPARKS_OWN = "of collection, expected"
"""Flows that begin together now and then break a collection of Spark's that they share: no task can be
serialized from then on, as of "Illegal size 5 of collection, expected 6". The run says so and ends."""


def run_until_killed(project: Piped, kill: Kill, before: int, tries: int = 2) -> int:
    """Start a run, and kill its victim when the moment has come; its runner, once the command has ended.

    It does not begin before the runner of the run before has ended, whose command alone may have been killed.
    """
    deadline = time.monotonic() + PATIENCE_S
    arguments = ("--continuous", "--interval", "0.2") if kill.continuous else ()
    with subprocess.Popen(
        project.command("run", "--master", MASTER, "--json", *arguments),
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            while before in processes():
                if runner_of(process.pid) is not None:
                    assert before not in processes(), "two runs at a time"
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline, (kill, project.log())
            come = a_moment(project, kill.moment)
            while not come():
                if process.poll() is not None:
                    told, log = "".join(process.communicate()), project.log()
                    assert tries > 1, (kill, told, log)
                    assert SPARKS_OWN in told + log, (kill, told, log)
                    print(f"Spark has broken itself, the run is begun again: {kill}")
                    return run_until_killed(project, kill, 0, tries - 1)
                assert time.monotonic() < deadline, (kill, project.log())
                time.sleep(0.005)  # Neither a topic nor a directory tells that it has grown.
            if kill.after_s:
                time.sleep(kill.after_s)
            assert process.poll() is None, f"over before it could be killed: {kill}"
            runner = slay(process.pid, kill.victim)
            out, err = process.communicate(timeout=END_S)
        finally:
            process.kill()
    if kill.victim in TOLD:
        # The command has outlived its victim, and says what became of it.
        assert process.returncode == 1, out + err
        assert (
            json.loads(out)["problem"] == f"{TOLD[kill.victim]} was killed by SIGKILL before the run was over"
        )
    else:
        assert process.returncode == -signal.SIGKILL, out + err
    return runner


def a_moment(project: Piped, name: str) -> Callable[[], bool]:
    """Whether it has come: what it looks at is compared with what is there now."""
    words = name.split()
    if name.startswith("a batch of"):
        began = batches(project.storage, words[3])[0]
        # One that a run before has begun is done first: it is not the moment.
        return lambda: (now := batches(project.storage, words[3]))[0] > max(began, now[1])
    if name == "a file of the table written":
        before = set(data_files(project))
        return lambda: not before.issuperset(data_files(project))
    topic = DECISIONS if name == "a batch decided" else words[0]
    end = end_of(project, topic)
    return lambda: end_of(project, topic) > end


def batches(storage: Path, flow: str) -> tuple[int, int]:
    """The last batch of a flow that was begun, and the last that is done."""
    for home in ("_checkpoints", "_streams"):
        for path in (storage / home).rglob("offsets"):
            if path.parent.parent.name == flow and path.parent.name.isdigit():
                return newest(path), newest(path.parent / "commits")
    return -1, -1


def newest(directory: Path) -> int:
    """The highest batch that a directory of a checkpoint names."""
    return max((int(path.name) for path in directory.glob("[0-9]*") if path.name.isdigit()), default=-1)


def data_files(project: Piped) -> list[Path]:
    """All files of rows in the lake table, committed or not."""
    return list((project.storage / "lake" / "orders").rglob("*.parquet"))


def end_of(project: Piped, topic: str) -> int:
    """How far a topic's log reaches, with what is not committed."""
    with everlog.Admin(project.bootstrap) as admin:
        if topic not in admin.list_topics(internal=True):
            return 0
        parts = admin.describe_topics([topic])[topic].partitions
        ends = admin.list_offsets([everlog.TopicPartition(topic, index) for index in parts])
    return sum(end.offset for end in ends.values() if end is not None)


def slay(command: int, victim: str) -> int:
    """Kill the one that is meant, or all: the command, the runner that it has started, and its session.

    The runner it was.
    """
    runner = runner_of(command)
    assert runner is not None, victim
    if victim == "java":
        [java] = [pid for pid, (parent, _, name) in processes().items() if (parent, name) == (runner, "java")]
        os.kill(java, signal.SIGKILL)
    elif victim == "runner":
        os.kill(runner, signal.SIGKILL)
    else:
        os.kill(command, signal.SIGKILL)
    # Who was just being started would be left over, so they are looked for until there is none.
    while victim == "all" and (
        left := [pid for pid, (_, session, _) in processes().items() if session == runner]
    ):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return runner


def runner_of(command: int) -> int | None:
    """The process that a command has started to run Spark, in a session of its own."""
    return next((pid for pid, (*above, _) in processes().items() if above == [command, pid]), None)


def processes() -> dict[int, tuple[int, int, str]]:
    """Parent, session and name of every process that is not dead."""
    found: dict[int, tuple[int, int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except (FileNotFoundError, ProcessLookupError):
                continue  # It has ended meanwhile.
            state, parent, _, session = rest.split()[:4]
            if state != "Z":
                found[int(entry.name)] = int(parent), int(session), name
    return found
