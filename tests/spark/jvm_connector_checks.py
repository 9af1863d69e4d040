"""What Spark's own connector for Kafka does on a broker, found out in a process and a JVM of its own.

`python -m tests.spark.jvm_connector_checks BOOTSTRAP FOLDER` runs every check and writes what each one saw to
`FOLDER/found.json`, or why it failed; `test_jvm_connector.py` says what it should have been.
"""

import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import everlog
from everlog.spark.session import session
from tests.apache_kafka import Unavailable
from tests.spark.local_settings import local_settings
from tests.spark_kafka import connector_jars

Check = Callable[["Place", str], Any]


class Place:
    """A session with the connector, a broker, and a folder for checkpoints and files."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        jars = connector_jars()
        assert not isinstance(jars, Unavailable), jars.reason
        self.bootstrap = bootstrap
        self.folder = folder
        # pyspark is typed in part only.
        self.spark: Any = session(
            "jvm-connector",
            master="local[2]",
            settings={
                **local_settings(folder),
                "spark.jars": ",".join(str(jar) for jar in jars),
                "spark.sql.session.timeZone": "UTC",
            },
        )
        self.spark.sparkContext.setLogLevel("ERROR")

    def topic(self, name: str, partitions: int = 2) -> str:
        """A new topic."""
        with everlog.Admin(self.bootstrap) as admin:
            # Records of 1970 are to stay.
            admin.create_topic(name, partitions=partitions, configs={"retention.ms": "-1"})
        return name

    def read(self, topic: str, **options: str) -> Any:
        """A batch of all of a topic, by the connector."""
        reader = self.spark.read.format("kafka").options(**options).option("subscribe", topic)
        return reader.option("kafka.bootstrap.servers", self.bootstrap).load()

    def stream(self, source: str, topic: str, **options: str) -> Any:
        """A stream of a topic from its beginning, by the connector or by us."""
        reader = self.spark.readStream.format(source).options(**options).option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("startingOffsets", "earliest").load()

    def run(self, name: str, frame: Any, sink: str, mode: str = "append", **options: str) -> Any:
        """Run a query on what there is until it ends itself; the query, with its progress."""
        writer = frame.writeStream.format(sink).options(**options).outputMode(mode)
        writer = writer.trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.folder / "checkpoints" / name)).start()
        assert query.awaitTermination(120), f"{name} did not end"
        return query

    def consumed(self, topic: str, count: int) -> list[Any]:
        """What is in a topic and committed, as our client reads it, once there are so many records."""
        with everlog.Consumer(
            self.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([(topic, partition.index) for partition in consumer.partitions_for(topic)])
            found: list[Any] = []
            deadline = time.monotonic() + 30
            while len(found) < count and time.monotonic() < deadline:
                found += consumer.poll(1.0)
            return found


def batch_read(place: Place, name: str) -> Any:
    """Every column of a topic, headers too."""
    topic = place.topic(name)
    with everlog.Producer(place.bootstrap) as producer:
        producer.send(
            topic, b"one", key=b"k", partition=0, timestamp=1_000, headers=[("h", b"x"), ("h", b"y")]
        )
        producer.send(topic, None, key=b"gone", partition=1, timestamp=2_000)
        producer.send(topic, b"three", partition=1, timestamp=3_000)
    rows: list[Any] = place.read(topic, includeHeaders="true").orderBy("timestamp").collect()
    return [_record(row, topic) for row in rows]


def _record(row: Any, topic: str) -> list[Any]:
    headers: list[Any] = row.headers or []
    place = [row.topic == topic, row.partition, row.offset, row.timestamp.timestamp(), row.timestampType]
    return [
        _text(row.key),
        _text(row.value),
        *place,
        [[header.key, _text(header.value)] for header in headers],
    ]


def _text(value: bytearray | None) -> str | None:
    return None if value is None else value.decode()


def batch_read_from_a_time(place: Place, name: str) -> Any:
    """Offsets by timestamp, which the connector asks the broker for."""
    topic = place.topic(name)
    with everlog.Producer(place.bootstrap) as producer:
        for second in range(10):
            producer.send(topic, str(second).encode(), partition=second % 2, timestamp=1_000 * second)
    frame = place.read(topic, startingTimestamp="3000", endingTimestamp="8000")
    return sorted(bytes(row.value).decode() for row in frame.collect())


def batch_sink(place: Place, name: str) -> Any:
    """A frame with keys, headers and partitions to a topic."""
    topic = place.topic(name, partitions=3)
    rows = [(f"k{i}", f"v{i}", i % 3, [("h", bytearray(b"x"))]) for i in range(30)]
    frame = place.spark.createDataFrame(
        rows, "key string, value string, partition int, headers array<struct<key: string, value: binary>>"
    )
    writer = frame.write.format("kafka").option("includeHeaders", "true").option("topic", topic)
    writer.option("kafka.bootstrap.servers", place.bootstrap).save()
    return sorted(
        [
            record.partition,
            record.key.decode(),
            record.value.decode(),
            [list(map(str, h)) for h in record.headers],
        ]
        for record in place.consumed(topic, 30)
    )


def stream_to_topic(place: Place, name: str) -> Any:
    """A stream from topic to topic in several batches, and again after more has come."""
    source, target = place.topic(name), place.topic(f"{name}-out")
    batches: list[int] = []
    for start in (0, 100):
        with everlog.Producer(place.bootstrap) as producer:
            for i in range(start, start + 100):
                producer.send(source, str(i).encode(), key=str(i).encode())
        frame = place.stream("kafka", source, maxOffsetsPerTrigger="60")
        sink = {"kafka.bootstrap.servers": place.bootstrap, "topic": target}
        batches.append(len(place.run(name, frame.select("key", "value"), "kafka", **sink).recentProgress))
    return {
        "batches": batches,
        "values": sorted(int(record.value) for record in place.consumed(target, 200)),
    }


def read_committed(place: Place, name: str) -> Any:
    """Transactions that committed and one that was aborted; the markers are no data loss."""
    topic = place.topic(name, partitions=1)
    with everlog.Producer(place.bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            for i in range(5):
                producer.send(topic, f"{number}.{i}".encode())
            producer.flush()  # What is not sent yet would not be sent at all.
            if number == 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    committed = {"kafka.isolation.level": "read_committed", "failOnDataLoss": "true"}
    batch = place.read(topic, **committed)
    out = str(place.folder / name)
    place.run(name, place.stream("kafka", topic, **committed).selectExpr("string(value)"), "json", path=out)
    return {
        "batch": sorted(bytes(row.value).decode() for row in batch.collect()),
        "stream": sorted(row.value for row in place.spark.read.json(out).collect()),
        "all": place.read(topic).count(),
    }


def one_checkpoint_for_both(place: Place, name: str) -> Any:
    """A query begun by the connector, gone on with by our source, and by the connector again."""
    topic, out = place.topic(name), str(place.folder / name)
    ends: list[Any] = []
    for turn, source in enumerate(("kafka", "everlog", "kafka")):
        with everlog.Producer(place.bootstrap) as producer:
            for i in range(10):
                producer.send(topic, f"{turn}.{i}".encode())
        frame = place.stream(source, topic).selectExpr("string(value)")
        query = place.run(name, frame, "json", path=out)
        end = query.lastProgress["sources"][0]["endOffset"]
        ends.append(json.loads(end) if isinstance(end, str) else end)
    return {
        "values": sorted(row.value for row in place.spark.read.json(out).collect()),
        "ends": [sum(end[topic].values()) for end in ends],
    }


def state_that_both_keep(place: Place, name: str) -> Any:
    """Counts by a column that only we say is never null, begun by the connector, and by us."""
    found: dict[str, Any] = {}
    for chain in (("kafka", "everlog", "kafka"), ("everlog", "kafka")):
        mine = f"{name}-{chain[0]}"
        topic, target = place.topic(mine), place.topic(f"{mine}-out", partitions=1)
        sink = {"kafka.bootstrap.servers": place.bootstrap, "topic": target}
        refused = ""
        for source in chain:
            with everlog.Producer(place.bootstrap) as producer:
                for i in range(10):
                    producer.send(topic, b"x", partition=i % 2)
            counts = place.stream(source, topic).groupBy("partition").count()
            rows = counts.selectExpr("string(partition) key", "string(count) value")
            try:
                place.run(mine, rows, "kafka", "update", **sink)
            except Exception as error:  # noqa: BLE001 -- what it is, is what is asked
                refused = f"{source}: {error}"
                break
        expected = 2 * (len(chain) - bool(refused))
        counted = [[_text(one.key), _text(one.value)] for one in place.consumed(target, expected)]
        found[chain[0]] = {"counts": sorted(counted), "refused": refused}
    return found


CHECKS: tuple[Check, ...] = (
    batch_read,
    batch_read_from_a_time,
    batch_sink,
    stream_to_topic,
    read_committed,
    one_checkpoint_for_both,
    state_that_both_keep,
)


def main() -> None:
    """Run all checks and write down what they saw."""
    bootstrap, folder = sys.argv[1], Path(sys.argv[2])
    place = Place(bootstrap, folder)
    found: dict[str, Any] = {}
    for check in CHECKS:
        name = check.__name__
        try:
            found[name] = {"saw": check(place, f"{folder.name}-{name}")}
        except Exception:  # noqa: BLE001 -- The test of this check reports it, and the others go on.
            found[name] = {"failed": traceback.format_exc()[-3000:]}
    place.spark.stop()
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
