"""What is written to under kills, a topic or a table, and the count of what has arrived there."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

from everlog import Consumer, EverlogError, TopicPartition
from everlog.spark.offset_log import read_offset_log
from tests.spark.kills.ledger import Count
from tests.spark.kills_table.job import Job
from tests.spark.kills_table.scene import KEYS, Scene

PARTITIONS = 2
COUNT_S = 120.0
"""The longest that the rest of a topic is read for; the broker is there by then."""


class Sink(Protocol):
    """One query of the driver's: where it writes to, how it is made to die, and what came of it."""

    name: str
    input: str

    def config(self) -> dict[str, Any]:
        """What the driver has to know."""
        ...

    def order(self, step: str, victims: list[str]) -> None:
        """Have these processes die when one gets to the step."""
        ...

    def obeyed(self) -> bool:
        """Whether what was ordered has come to pass."""
        ...

    def read(self, wait_s: float) -> None:
        """Take in what is new, if that is known without a look at everything; wait so long for it at most."""
        ...

    def arrived(self, fed: int) -> bool:
        """Whether the query has noted as done all that was fed, and readers see all that they ever will.

        It does not ask whether that is right, or what is lost would be waited for and never counted.
        """
        ...

    def count(self, fed: int) -> Count:
        """Compare all that is there with all that was fed."""
        ...

    def close(self) -> None:
        """Part with the broker."""
        ...


class TopicSink:
    """The topic `output`, as readers of committed records see it."""

    name = "topic"

    def __init__(
        self, bootstrap: str, folder: Path, steps: Path, *, input_topic: str, low_latency: bool
    ) -> None:
        self.input = input_topic
        self._low_latency = low_latency
        self._bootstrap = bootstrap
        self._checkpoint = folder / "checkpoint"
        self._steps = steps
        self._done = steps / "none.done"
        self._consumer = Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")
        self._places = [TopicPartition("output", index) for index in range(PARTITIONS)]
        self._consumer.assign(self._places)
        self._of_all = Consumer(bootstrap, isolation_level="read_uncommitted")
        """Knows where the log ends, be what is there decided or not."""
        self.seen: Counter[int] = Counter()

    def config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "input": self.input,
            "checkpoint": str(self._checkpoint),
            "low_latency": "true" if self._low_latency else "false",
        }

    def order(self, step: str, victims: list[str]) -> None:
        order = self._steps / step
        self._done = order.with_suffix(".done")
        self._done.unlink(missing_ok=True)
        fresh = self._steps / "order.new"
        fresh.write_text(" ".join(victims))
        fresh.rename(order)

    def obeyed(self) -> bool:
        return self._done.exists()

    def read(self, wait_s: float) -> None:
        try:
            for record in self._consumer.poll(wait_s):
                self.seen[int(json.loads(record.value or b"{}")["id"])] += 1
        except EverlogError:
            time.sleep(wait_s)  # The broker is away; the position is kept.

    def arrived(self, fed: int) -> bool:
        return noted(self._checkpoint) >= fed and (len(self.seen) >= fed or self._all_is_read())

    def _all_is_read(self) -> bool:
        """Whether no transaction is open that could bring more rows, and those that are closed are read."""
        try:
            # Not for long: nobody starts the broker again meanwhile.
            ends = self._of_all.end_offsets(*self._places, timeout=1.0)
            return all(self._consumer.position(place) >= ends[place] for place in self._places)
        except EverlogError:
            return False  # The broker is away.

    def count(self, fed: int) -> Count:
        # What would be seen twice comes behind all that is there now, if it does not lie before it.
        ends = self._consumer.end_offsets(*self._places)
        deadline = time.monotonic() + COUNT_S
        while any(self._consumer.position(place) < ends[place] for place in self._places):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the output cannot be read up to {ends} within {COUNT_S:g} s")
            self.read(0.2)
        duplicates = sum(times - 1 for times in self.seen.values())
        return Count(
            fed, self.seen.total(), duplicates, sum(number not in self.seen for number in range(fed))
        )

    def close(self) -> None:
        self._consumer.close(0)
        self._of_all.close(0)


class TableSink:
    """A table of some format, and mode `append`, `upsert` or `rows`."""

    def __init__(self, bootstrap: str, folder: Path, name: str) -> None:
        self.name = name
        self.input = f"input-{name}"
        self._scene = Scene.make(bootstrap, folder, self.input, *name.split("-"))

    @property
    def _job(self) -> Job:
        return self._scene.job

    def config(self) -> dict[str, Any]:
        return {"name": self.name, "job": self._job.dump()}

    def order(self, step: str, victims: list[str]) -> None:
        self._scene.order(step, victims)

    def obeyed(self) -> bool:
        return not Path(self._job.kill_file).exists()

    def read(self, wait_s: float) -> None:
        time.sleep(wait_s)  # A table tells nobody that it has grown.

    def arrived(self, fed: int) -> bool:
        return noted(Path(self._job.checkpoint)) >= fed

    def count(self, fed: int) -> Count:
        return self._scene.count(fed)

    def close(self) -> None:
        """There is nothing to part with."""


def noted(checkpoint: Path) -> int:
    """How many records of its topic a query has noted as done."""
    try:
        done = [int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal()]
        if not done:
            return 0
        text = (checkpoint / "offsets" / str(max(done))).read_text()
        return sum(read_offset_log(text).ends.values())
    except FileNotFoundError:
        return 0


def row(number: int) -> tuple[bytes, bytes]:
    """Key and value of an input: those of one key go to one partition, and come again."""
    key = number % KEYS
    return str(key).encode(), json.dumps({"id": number, "key": key}).encode()
