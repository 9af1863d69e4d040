"""Progress of every streaming query of a Spark application, those of declared flows included.

Spark tells a listener of queries only of its own session, and declared flows run in sessions that nobody else
can reach. What all sessions share is the bus of the application; this listens there. It knows pyspark's
gateway to the JVM, which is not typed: `Any` here.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from everlog.pipelines.checkpoints import short_flow
from everlog.pipelines.events import BatchDone, Event
from everlog.spark.offset_log import offsets_of_source

Tell = Callable[[Event], None]


def listen(spark: Any, tell: Tell) -> None:
    """Tell of each batch of each query from now on, on a thread of pyspark's."""
    from pyspark import java_gateway

    context = spark.sparkContext
    gateway: Any = java_gateway
    gateway.ensure_callback_server_started(context._gateway)
    context._jsc.sc().addSparkListener(_Listener(tell))


def batch_of(progress: Mapping[str, Any]) -> BatchDone | None:
    """A query's report of a batch; None if it says that there was nothing to do."""
    rows = int(progress["numInputRows"])
    duration = progress.get("durationMs", {})
    if rows == 0 and "addBatch" not in duration:
        return None
    written = int(progress.get("sink", {}).get("numOutputRows", -1))
    return BatchDone(
        flow=short_flow(str(progress.get("name") or progress["id"])),
        batch=int(progress["batchId"]),
        rows_in=rows,
        rows_out=written if written >= 0 else None,
        duration_ms=int(progress.get("batchDuration") or duration.get("triggerExecution", 0)),
        rows_per_second=float(progress.get("processedRowsPerSecond") or 0.0),
        lag=_lag(progress.get("sources", ())),
    )


def _lag(sources: Any) -> int | None:
    total: int | None = None
    for source in sources:
        end = offsets_of_source(_text(source.get("endOffset")))
        latest = offsets_of_source(_text(source.get("latestOffset")))
        if end and latest:
            behind = sum(max(0, offset - end.get(partition, 0)) for partition, offset in latest.items())
            total = (total or 0) + behind
    return total


def _text(offset: object) -> str:
    return offset if isinstance(offset, str) else json.dumps(offset)


class _Listener:
    """Spark's listener interface has some thirty methods; all but one do nothing."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on"):
            return _ignore
        raise AttributeError(name)

    def onOtherEvent(self, event: Any) -> None:
        """Spark calls this with whatever is no matter of jobs and tasks: the progress of queries, too."""
        if event.getClass().getSimpleName() == "QueryProgressEvent":
            batch = batch_of(json.loads(event.progress().json()))
            if batch is not None:
                self._tell(batch)

    class Java:
        """For Py4J."""

        implements = ("org.apache.spark.scheduler.SparkListenerInterface",)


def _ignore(*_given: object) -> None:
    pass
