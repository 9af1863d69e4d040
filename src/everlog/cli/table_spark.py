"""`everlog table run --engine spark`: the source `everlog` into the sink `everlog_table`."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from everlog.cli.options import key_values
from everlog.cli.table_watch import Tally, Watch
from everlog.client import Admin
from everlog.model.errors import ConfigError, EverlogError
from everlog.model.topics import TopicPartition
from everlog.spark.errors import explain
from everlog.spark.session import session
from everlog.spark.source.offsets import EARLIEST, LATEST
from everlog.tables.location import local_path
from everlog.tables.materialize import Pace
from everlog.tables.offsets import Coverage
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table

POLL_SECONDS = 0.2


class SparkFailed(EverlogError):
    """The query ended with an error; the message is the one line of it that counts."""


@dataclass(frozen=True, slots=True)
class SparkRun:
    """What is to be run, and where."""

    spec: TableSpec
    pace: Pace
    master: str
    checkpoint: str | None
    confs: tuple[str, ...]
    client: Mapping[str, Any]
    """What our own clients are told."""
    config: Mapping[str, Any]
    """What of it Spark's tasks are to be told too."""


def checkpoint_of(spec: TableSpec, given: str | None) -> str:
    """Where the query's checkpoint is: as said, else beside the table, where no expiry removes it."""
    if given is not None:
        return given
    location = local_path(spec.location)
    if location is None:
        raise ConfigError(
            f"table {spec.name} is at {spec.location}: expected --checkpoint, a place for Spark's state"
        )
    location = location.absolute()
    return str(location.parent / "_checkpoints" / location.name)


def starting_offsets(places: list[TopicPartition], covered: Coverage, *, latest: bool) -> str:
    """Where a query without a checkpoint begins: at the first offset that the table does not have.

    With `latest` it goes on behind the last that it has, and leaves what lies before to a backfill.
    """
    ends = covered.ends()
    offsets: dict[str, dict[str, int]] = {}
    for place in sorted(places):
        first = ends.get(place, LATEST) if latest else covered.first_missing(place, 0) or EARLIEST
        offsets.setdefault(place.topic, {})[str(place.partition)] = first
    return json.dumps(offsets)


def run_on_spark(wanted: SparkRun, stop: threading.Event, watch: Watch) -> Tally:
    """Run the query until it ends, or is told to stop; SparkFailed if it fails."""
    spec = wanted.spec
    assert spec.bootstrap is not None, spec
    checkpoint = checkpoint_of(spec, wanted.checkpoint)
    covered = open_table(spec).coverage()
    with Admin(spec.bootstrap, **wanted.client) as admin:
        topic = admin.describe_topics([spec.topic])[spec.topic]
    places = [TopicPartition(spec.topic, index) for index in topic.partitions]
    settings = {"spark.ui.enabled": "false", **key_values(wanted.confs, "--conf")}
    config = {f"kafka.{name.replace('_', '.')}": _text(value) for name, value in wanted.config.items()}
    watch.say("starting Spark")
    spark: Any = session(f"everlog-table-{spec.name}", master=wanted.master, settings=settings)
    try:
        # Java's stacks would bury the one line that says what is wrong.
        spark.sparkContext.setLogLevel("OFF")
        reading = (
            spark.readStream.format("everlog")
            .option("kafka.bootstrap.servers", spec.bootstrap)
            .option("subscribe", spec.topic)
            .option(
                "startingOffsets", starting_offsets(places, covered, latest=wanted.pace.start == "latest")
            )
            .option("failOnDataLoss", str(not wanted.pace.skip_lost).lower())
            .options(**config)
        )
        writing = (
            reading.load()
            .writeStream.format("everlog_table")
            .queryName(f"everlog-table-{spec.name}")
            .option("table", spec.name)
            .option("kafka.bootstrap.servers", spec.bootstrap)
            .option("checkpointLocation", checkpoint)
            .options(**config)
        )
        if wanted.pace.until_end:
            writing = writing.trigger(availableNow=True)
        else:
            writing = writing.trigger(processingTime=f"{int(wanted.pace.batch_s * 1000)} milliseconds")
        _follow(writing.start(), stop, watch)
    except EverlogError:
        raise
    except Exception as error:
        raise SparkFailed(explain(error) or " ".join(str(error).split())[:500]) from error
    finally:
        spark.stop()
    # What Spark reports is what was read; which of it became dead letters it does not know.
    return replace(watch.tally(), bad=None)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _follow(query: Any, stop: threading.Event, watch: Watch) -> None:
    seen = -1
    while True:
        ended = query.awaitTermination(POLL_SECONDS)
        for progress in query.recentProgress:
            if progress["batchId"] > seen:
                seen = progress["batchId"]
                if progress["numInputRows"]:
                    watch.batch(progress["numInputRows"], 0, lag_of_progress(progress))
        if ended:
            return
        if stop.is_set():
            query.stop()
            return


def lag_of_progress(progress: Any) -> int | None:
    """How far a query's source is behind, by its report of progress; None if that does not tell."""
    lag: int | None = None
    for source in progress["sources"]:
        end, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        if end is None or latest is None:
            continue
        behind = (
            max(0, last - end.get(topic, {}).get(index, 0))
            for topic, indexes in latest.items()
            for index, last in indexes.items()
        )
        lag = (lag or 0) + sum(behind)
    return lag


def _offsets(found: Any) -> dict[str, dict[str, int]] | None:
    """Offsets as a source reports them: an object, or the text of one."""
    try:
        read = json.loads(found) if isinstance(found, str) else found
    except ValueError:
        return None
    return cast("dict[str, dict[str, int]]", read) if isinstance(read, dict) else None
