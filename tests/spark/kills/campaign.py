"""One campaign: input flows, processes are killed one after another, and the output is counted."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everlog import Admin, Consumer, EverlogError, NewTopic, Producer, TopicPartition
from tests.spark.kills.victims import Broker, Driver

TASK_STEPS = ("task-begun", "task-sent", "task-prepared")
COMMIT_STEPS = (
    "commit-called",
    "after-ShutOutOthers",
    "after-Hold",
    "after-FindOpen",
    "deciding",
    "after-Decide",
    "after-Commit",
    "after-Abort",
    "commit-done",
)
ROWS_PER_FILE = 20
PATIENCE_S = 600.0
LATE_S = 3.0


@dataclass
class Report:
    """What a campaign has seen."""

    kills: Counter[str] = field(default_factory=Counter[str])
    written: int = 0
    missing: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    left_open: list[str] = field(default_factory=list[str])
    restarts: int = 0
    lag: int | None = None

    @property
    def violations(self) -> int:
        """How many rows are not there once; and transactions that nobody ends."""
        return len(self.missing) + len(self.doubled) + len(self.left_open)


class Campaign:
    """The processes, the input and what was read of the output so far."""

    def __init__(self, folder: Path, *, source: str, two_phase: bool, seed: int) -> None:
        self.chance = random.Random(seed)
        self.report = Report()
        self._folder = folder
        self._source = source
        (folder / "broker").mkdir(parents=True)
        self.broker = Broker(folder / "broker", two_phase=two_phase)
        self.broker.start()
        with Admin(self.broker.bootstrap) as admin:
            admin.create_topics([NewTopic("output", 3), NewTopic("input", 4)])
        self._input = folder / "input"
        if source == "counted":
            self._input.write_text("0")
        else:
            self._input.mkdir()
        (folder / "driver").mkdir()
        self.driver = Driver(
            folder / "driver",
            {
                "bootstrap": self.broker.bootstrap,
                "source": source,
                "input": "input" if source == "everlog" else str(self._input),
                "output": "output",
                "group": "kills",
            },
        )
        self.driver.start()
        self._producer = Producer(self.broker.bootstrap)
        self._consumer = Consumer(
            self.broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._consumer.assign([TopicPartition("output", index) for index in range(3)])
        self._seen: Counter[str] = Counter()
        self._fed = 0

    def close(self) -> None:
        """End all processes."""
        self.driver.end()
        self._consumer.close(0)
        self._producer.close(0)
        self.broker.stop()

    # Input and output.

    def feed(self) -> None:
        """Add some rows of input, in as many tasks as there may be."""
        for _ in range(4):
            rows = [f"row-{self._fed + index}" for index in range(ROWS_PER_FILE)]
            if self._source == "files":
                fresh = self._folder / f"{self._fed}.new"
                fresh.write_text("\n".join(rows) + "\n")
                fresh.rename(self._input / f"{self._fed:09}.txt")
            elif self._source == "everlog":
                for row in rows:
                    self._producer.send("input", row.encode(), partition=self._fed // ROWS_PER_FILE % 4)
            self._fed += ROWS_PER_FILE
        if self._source == "counted":
            fresh = self._folder / "fed.new"
            fresh.write_text(str(self._fed))
            fresh.rename(self._input)

    def read(self) -> None:
        """Count what readers of committed records see."""
        try:
            for record in self._consumer.poll(0.2):
                self._seen[(record.value or b"").decode()] += 1
        except EverlogError:
            time.sleep(0.2)  # The broker is away; the position is kept.

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Go on feeding and reading, and start again what was killed, until something holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{what}: not within {PATIENCE_S:g} s, {len(self._seen)} of {self._fed} rows seen; the "
                    f"driver says:\n{self.driver.tail()}"
                )
            self.revive()
            self.read()

    def revive(self) -> None:
        """Start again what was killed."""
        self.broker.start_if_dead()
        if self.driver.is_dead():
            self.driver.end()
            self.report.restarts += 1
            self.driver.start()

    def catch_up(self) -> None:
        """Wait until all that was fed is seen."""
        self.until(lambda: len(self._seen) >= self._fed, "all input in the output")

    # Kills.

    def kill_at(self, step: str, victim: str) -> None:
        """Have a process die exactly at a step: the one that gets there, the broker, or the driver."""
        victims = {
            "self": ["self"],
            "broker": [str(self.broker.pid)],
            "driver": [*(str(pid) for pid in self.driver.pids), "self"],
        }[victim]
        order = self.driver.steps / step
        done = order.with_suffix(".done")
        done.unlink(missing_ok=True)
        fresh = self.driver.steps / "order.new"
        fresh.write_text(" ".join(victims))
        fresh.rename(order)
        self._feed_until(done.exists, f"a process at {step}")
        self.report.kills[f"{victim} at {step}"] += 1
        self._wait_for_death(victim)

    def kill_sometime(self, victim: str) -> None:
        """Kill something at a moment that nobody has chosen."""
        self._feed_until(lambda: self._fed - len(self._seen) > 0, "input on its way")
        deadline = time.monotonic() + self.chance.uniform(0.05, 1.5)
        while time.monotonic() < deadline:
            self.read()
        if victim == "driver":
            self.driver.kill()
        elif victim == "broker":
            os.kill(self.broker.pid, signal.SIGKILL)
        else:
            self._feed_until(self._kill_worker, "a worker to kill")
        self.report.kills[f"{victim} sometime"] += 1
        self._wait_for_death(victim)

    def _kill_worker(self) -> bool:
        """Kill one of the processes that run tasks, plan or commit; False if there is none now."""
        workers = self.driver.workers()
        try:
            os.kill(self.chance.choice(workers), signal.SIGKILL)
        except (IndexError, ProcessLookupError):
            return False
        return True

    def _feed_until(self, condition: Callable[[], bool], what: str) -> None:
        def fed() -> bool:
            if self._fed - len(self._seen) < 8 * ROWS_PER_FILE:
                self.feed()
            return condition()

        self.until(fed, what)

    def _wait_for_death(self, victim: str) -> None:
        if victim == "broker":
            while not self.broker.start_if_dead():
                time.sleep(0.01)
        elif victim == "driver":
            while not self.driver.is_dead():
                time.sleep(0.01)
            self.revive()

    # The outcome.

    def finish(self) -> Report:
        """Let everything arrive, count, and look for what was left open."""
        self.feed()
        self.catch_up()
        # One more batch, so that whatever the last ones left is swept; then nothing may be open.
        self.feed()
        self.catch_up()
        # What would be seen twice comes with the others, or soon after them.
        deadline = time.monotonic() + LATE_S
        while time.monotonic() < deadline:
            self.read()
        report = self.report
        report.written = self._fed
        expected = {f"row-{index}" for index in range(self._fed)}
        report.missing = sorted(expected - set(self._seen))
        report.doubled = sorted(row for row, count in self._seen.items() if count != 1)
        with Admin(self.broker.bootstrap) as admin:
            report.left_open = [one.transactional_id for one in admin.list_transactions(states=["Ongoing"])]
            if self._source == "everlog":
                report.lag = sum(entry.lag or 0 for entry in admin.group_lag("kills"))
        return report


def any_kill(campaign: Campaign, *, driver: bool) -> None:
    """One kill, of whatever kind comes up; of the driver only where that is allowed, as it takes long."""
    chance: Any = campaign.chance
    if chance.random() < 0.25:
        campaign.kill_sometime("driver" if driver else chance.choice(["worker", "worker", "broker"]))
        return
    step = chance.choice(TASK_STEPS + COMMIT_STEPS)
    campaign.kill_at(step, "driver" if driver else chance.choice(["self", "self", "broker"]))
