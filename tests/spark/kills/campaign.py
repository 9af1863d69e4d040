"""One campaign: input flows, processes are killed one after another, and the output is counted."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from everlog import Admin, NewTopic, Producer
from tests.spark.kills.ledger import Count
from tests.spark.kills.plan import SOMETIME
from tests.spark.kills.sinks import PARTITIONS, Sink, TableSink, TopicSink, row
from tests.spark.kills.victims import Broker, Driver, executors_in
from tests.spark.standalone import standalone_cluster

ROWS = 40
"""Of a batch, and of what is fed at a time."""
PATIENCE_S = 900.0


@dataclass
class Report:
    """What a campaign has seen."""

    kills: Counter[str] = field(default_factory=Counter[str])
    counts: dict[str, Count] = field(default_factory=dict[str, Count])
    left_open: list[str] = field(default_factory=list[str])
    restarts: int = 0
    lag: int | None = None

    @property
    def right(self) -> bool:
        """Whether every row is there once, and no transaction is left for others to wait for."""
        return all(count.right for count in self.counts.values()) and not self.left_open


class Campaign:
    """The processes, the input and what was read of the output so far."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        two_phase: bool = True,
        spark: bool = True,
        executors: int = 0,
        java: str = "",
        low_latency: bool = False,
        lose_row: int | None = None,
    ) -> None:
        """Start all that is needed; without `spark` its part is played by processes without a JVM.

        Those can be made to drop a row on purpose, `lose_row`: a loss that has to be told.
        """
        self.chance = random.Random(seed)
        self.report = Report()
        self._folder = folder
        self._spark = spark
        (folder / "broker").mkdir(parents=True)
        (folder / "driver").mkdir()
        self.broker = Broker(folder / "broker", two_phase=two_phase)
        config = {"bootstrap": self.broker.bootstrap, "master": "local[2,4]", "java": java}
        assert lose_row is None or not spark, "Spark loses no row on purpose"
        config |= {} if lose_row is None else {"lose_row": str(lose_row)}
        self._cluster = folder / "cluster" if executors else None
        with ExitStack() as stack:
            self.broker.start()
            stack.callback(self.broker.stop)
            with Admin(self.broker.bootstrap) as admin:
                admin.create_topics([NewTopic("output", PARTITIONS), NewTopic("input", PARTITIONS)])
            if self._cluster is not None:
                cluster = standalone_cluster(self._cluster, workers=executors)
                config["master"] = stack.enter_context(cluster).url
            self.driver = Driver(folder / "driver", config, spark=spark)
            stack.callback(self.driver.end)
            self._producer = Producer(self.broker.bootstrap)
            stack.callback(self._producer.close, 0)
            topic = TopicSink(
                self.broker.bootstrap,
                folder / "driver",
                self.driver.steps,
                input_topic="input",
                low_latency=low_latency,
            )
            self._sinks: dict[str, Sink] = {"topic": topic}
            self._fed: Counter[str] = Counter()
            self._fed_at = time.monotonic()
            self._way_s = 2.0
            """How long rows were on their way last time, from being fed to being noted as done."""
            self._sink: Sink = topic
            self.use("topic")
            self._stack = stack.pop_all()

    def close(self) -> None:
        """End all processes."""
        for sink in self._sinks.values():
            sink.close()
        self._stack.close()

    def use(self, name: str) -> None:
        """Go on with this sink; those used before keep what they have."""
        if name not in self._sinks:
            self._sinks[name] = TableSink(self.broker.bootstrap, self._folder / "tables", name)
        self._sink = self._sinks[name]
        self.driver.want([self._sink.config()])
        self.revive()

    # Input and output.

    def feed(self) -> None:
        """Add some rows of input."""
        start = self._fed[self._sink.name]
        for number in range(start, start + ROWS):
            key, value = row(number)
            if self._spark:
                self._producer.send(self._sink.input, value, key)
        self._fed[self._sink.name] += ROWS
        self._fed_at = time.monotonic()
        if not self._spark:
            self.driver.tell_fed(self.fed)

    @property
    def fed(self) -> int:
        """How many rows the sink in use was given so far."""
        return self._fed[self._sink.name]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Go on reading, and start again what was killed, until something holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{self._sink.name}: {what}: not within {PATIENCE_S:g} s of {self.fed} rows; the driver "
                    f"says:\n{self.driver.tail()}"
                )
            self.revive()
            self._sink.read(0.05)

    def revive(self) -> None:
        """Start again what was killed."""
        self.broker.start_if_dead()
        if self.driver.is_dead():
            if self.driver.was_started:
                self.report.restarts += 1
            self.driver.end()
            self.driver.start()

    # Kills.

    def round(self, kills: Sequence[tuple[str, str]]) -> Count:
        """Kill, each as soon as the one before is dead, then let all arrive and count."""
        for kind, step in kills:
            self.kill(kind, step)
        return self.settle()

    def kill(self, kind: str, step: str) -> None:
        """Have somebody die at a step, or sometime."""
        if step == SOMETIME:
            self._kill_sometime(kind)
        else:
            self._sink.order(step, self._victims(kind))
            self._feed_until(self._sink.obeyed, f"a process at {step}")
        self.report.kills[f"{kind} {step}"] += 1
        self._wait_for_death(kind)

    def _victims(self, kind: str) -> list[str]:
        match kind:
            case "broker":
                return [str(self.broker.pid)]
            case "driver":
                return [*(str(pid) for pid in self.driver.pids), "self"]
            case "executor":
                self._feed_until(lambda: bool(self._executors()), "an executor")
                return [str(self.chance.choice(self._executors()))]
            case _:
                return ["self"]

    def _executors(self) -> list[int]:
        assert self._cluster is not None
        return executors_in(self._cluster)

    def _kill_sometime(self, kind: str) -> None:
        self.feed()
        # Anywhere on the way of these rows, be that fast or through a driver that has just been started.
        moment = time.monotonic() + self.chance.uniform(0.0, self._way_s)
        self._feed_until(lambda: time.monotonic() > moment, "a moment")
        if kind == "driver":
            self.driver.kill()
        elif kind == "broker":
            os.kill(self.broker.pid, signal.SIGKILL)
        else:
            among = self._executors if kind == "executor" else self._workers
            self._feed_until(lambda: self._kill_one(among()), f"{kind} to kill")

    def _workers(self) -> list[int]:
        """The Python processes that run tasks, plan or commit now."""
        found = self.driver.workers()
        for executor in self._executors() if self._cluster is not None else []:
            found += self.driver.workers(executor)
        return found

    def _kill_one(self, among: Sequence[int]) -> bool:
        try:
            os.kill(self.chance.choice(among), signal.SIGKILL)
        except (IndexError, ProcessLookupError):
            return False
        return True

    def _feed_until(self, condition: Callable[[], bool], what: str) -> None:
        def fed() -> bool:
            if self._sink.arrived(self.fed):
                self.feed()
            return condition()

        self.until(fed, what)

    def _wait_for_death(self, kind: str) -> None:
        if kind == "broker":
            while not self.broker.start_if_dead():
                time.sleep(0.01)
        elif kind == "driver":
            while not self.driver.is_dead():
                time.sleep(0.01)
            self.revive()

    # The outcome.

    def settle(self) -> Count:
        """Let all that was fed arrive, and count."""
        self.until(lambda: self._sink.arrived(self.fed), "all input in the output")
        self._way_s = time.monotonic() - self._fed_at
        count = self._sink.count(self.fed)
        self.report.counts[self._sink.name] = count
        return count

    def count_so_far(self) -> Count:
        """What is there of what was fed, arrived or not: for a round that came to no end."""
        self.broker.start_if_dead()
        return self._sink.count(self.fed)

    def finish(self) -> Report:
        """Let everything arrive, count, and look for what was left open."""
        self.use("topic")
        self.settle()
        # One more batch, so that whatever the last ones left is swept; then nothing may be open.
        self.feed()
        self.settle()
        with Admin(self.broker.bootstrap) as admin:
            self.report.left_open = [
                one.transactional_id for one in admin.list_transactions(states=["Ongoing"])
            ]
            if self._spark:
                self.report.lag = sum(entry.lag or 0 for entry in admin.group_lag("kills"))
        return self.report
