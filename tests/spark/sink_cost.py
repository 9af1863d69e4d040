"""What the sink itself costs, without Spark: `python -m tests.spark.sink_cost` on a broker of its own."""

import statistics
import tempfile
import time
import uuid
from importlib import import_module
from pathlib import Path
from typing import Any

from everlog import Admin, NewTopic
from everlog.spark.sink.driver import commit_stream_batch
from everlog.spark.sink.options import Guarantee, SinkOptions
from everlog.spark.sink.producers import BatchPlace
from everlog.spark.sink.task import write_rows
from tests import brokers

pa: Any = import_module("pyarrow")
ROWS, PIECES, SMALL_BATCHES = 10_000, 50, 60


def main() -> None:
    """Write large tasks for rates, then small batches for what each costs."""
    with tempfile.TemporaryDirectory() as folder:
        broker = brokers.start(["up", "--ephemeral", "--port", "0"], Path(folder) / "stderr")
        try:
            with Admin(broker.bootstrap) as admin:
                admin.create_topics([NewTopic("cost", 2)])
            for guarantee in Guarantee:
                _large(broker.bootstrap, guarantee)
            _small(broker.bootstrap)
        finally:
            broker.stop()


def _options(bootstrap: str, guarantee: Guarantee) -> SinkOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": "cost", "deliveryGuarantee": guarantee.value}
    return SinkOptions.read(given)


def _large(bootstrap: str, guarantee: Guarantee) -> None:
    options, query = _options(bootstrap, guarantee), str(uuid.uuid4())
    rows = pa.record_batch({"value": pa.array([b"x" * 100] * ROWS, pa.binary())})
    for batch in range(3):
        began, cpu = time.perf_counter(), time.process_time()
        done = write_rows(options, BatchPlace(query, "run", batch), ["value"], [rows] * PIECES)
        commit_stream_batch(options, [done], batch)
        took, used = time.perf_counter() - began, time.process_time() - cpu
        rate, per_million = done.rows / took, used * 1e6 / done.rows
        print(f"{guarantee.value}: {rate:,.0f} rows/s, {per_million:.2f} CPU seconds per million rows")


def _small(bootstrap: str) -> None:
    options, query = _options(bootstrap, Guarantee.EXACTLY_ONCE), str(uuid.uuid4())
    rows = pa.record_batch({"value": pa.array([b"x" * 100] * 10, pa.binary())})
    tasks_ms: list[float] = []
    commit_ms: list[float] = []
    for batch in range(SMALL_BATCHES):
        began = time.perf_counter()
        place = BatchPlace(query, "run", batch)
        done = [write_rows(options, place, ["value"], [rows]) for _ in range(2)]
        written = time.perf_counter()
        commit_stream_batch(options, done, batch)
        tasks_ms.append((written - began) * 1000)
        commit_ms.append((time.perf_counter() - written) * 1000)
    tasks, commit = statistics.median(tasks_ms), statistics.median(commit_ms)
    print(f"two tasks of 10 rows, one after the other: {tasks:.1f} ms; their commit: {commit:.1f} ms (p50)")


if __name__ == "__main__":
    main()
