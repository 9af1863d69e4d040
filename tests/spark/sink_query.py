"""A query as the sink sees it: tasks and driver of one id, called as Spark would call them."""

import time
import uuid
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast

import pytest

from everlog import Admin, Consumer, TopicPartition
from everlog.spark.sink.deciding import Decider
from everlog.spark.sink.decisions import decided_batch
from everlog.spark.sink.names import transactional_id_prefix
from everlog.spark.sink.options import SinkOptions
from everlog.spark.sink.producers import BatchPlace
from everlog.spark.sink.protocol import Steps, abort_batch, commit_batch
from everlog.spark.sink.task import TaskOutcome, write_rows

pa: Any = import_module("pyarrow")

PATIENCE_S = 60.0


class Query:
    """A query with its own id: its tasks and its driver."""

    def __init__(self, bootstrap: str, topic: str, **options: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.id = str(uuid.uuid4())
        self.run = uuid.uuid4().hex
        given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, **options}
        self.options = SinkOptions.read(given)
        self.decider = Decider(self.options, self.id)

    def restart(self) -> None:
        """What a new driver begins with: nothing but the id."""
        self.run = uuid.uuid4().hex
        self.decider = Decider(self.options, self.id)

    def task(self, batch: int, *values: str) -> TaskOutcome:
        rows = pa.record_batch({"value": pa.array(values, pa.string())})
        return write_rows(self.options, BatchPlace(self.id, self.run, batch), ["value"], [rows])

    def commit(self, batch: int, outcomes: Sequence[TaskOutcome]) -> None:
        written = [one.transaction for one in outcomes if one.transaction is not None]
        skipped = sum(one.skipped for one in outcomes)
        self.decider.run(lambda: commit_batch(batch, written, skipped))

    def abort(self, batch: int, outcomes: Sequence[TaskOutcome]) -> None:
        written = [one.transaction for one in outcomes if one.transaction is not None]
        self.decider.run(lambda: abort_batch(batch, written))

    def commit_up_to(self, step: str, batch: int, outcomes: Sequence[TaskOutcome]) -> None:
        """Commit, and end with that step, as a driver that is killed there."""
        written = [one.transaction for one in outcomes if one.transaction is not None]

        class Killed(BaseException): ...

        def steps() -> Steps:
            inner = commit_batch(batch, written, 0)
            answer: object = None
            while True:
                wanted = inner.send(answer)
                answer = cast("object", (yield wanted))
                if type(wanted).__name__ == step:
                    raise Killed

        with pytest.raises(Killed):
            self.decider.run(steps)

    def decided(self) -> int | None:
        """The last batch whose decision tasks know of by now."""
        with Admin(self.bootstrap) as admin:
            return decided_batch(admin, self.id)

    def seen(self) -> list[str]:
        """What readers of committed records see by now, waiting for nothing that is open."""
        return committed_values(self.bootstrap, self.topic)

    def open_transactions(self) -> list[str]:
        prefix = transactional_id_prefix(self.id)
        with Admin(self.bootstrap) as admin:
            found = admin.list_transactions(states=["Ongoing"])
        return [one.transactional_id for one in found if one.transactional_id.startswith(prefix)]


def committed_values(bootstrap: str, topic: str) -> list[str]:
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topic, one.index) for one in consumer.partitions_for(topic)]
        ends = consumer.end_offsets(*places)
        consumer.assign(places)
        found: list[str] = []
        while any(consumer.position(place) < ends[place] for place in places):
            found += [(record.value or b"").decode() for record in consumer.poll(PATIENCE_S)]
        return sorted(found)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
