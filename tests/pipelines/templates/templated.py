"""A template as a project, run as `everlog pipeline run --once` runs it but in the session of the tests.

Declared flows are registered as Spark's own command does it, and run as Spark runs them: each as a query with
the trigger AvailableNow.
"""

import json
import runpy
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)
from pyspark.pipelines.output import Output, Sink, StreamingTable

import everlog
from everlog.cli.pipeline_seed import seed_project
from everlog.pipelines.project import STORAGE_KEY, Project
from everlog.pipelines.scaffold import create_project
from everlog.pipelines.streams import take_declared

PATIENCE_S = 500
TRIES = 4


@dataclass
class Declared(GraphElementRegistry):
    """What the files of a project declare."""

    outputs: dict[str, Output] = field(default_factory=dict[str, Output])
    flows: list[Flow] = field(default_factory=list[Flow])

    def register_output(self, output: Output) -> None:
        self.outputs[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        self.flows.append(flow)

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        raise NotImplementedError

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise NotImplementedError


@dataclass
class Templated:
    """A project made of a template, and where it runs."""

    spark: Any
    project: Project
    bootstrap: str

    @property
    def storage(self) -> Path:
        """Where its tables and checkpoints are."""
        found = self.project.local_storage
        assert found is not None
        return found

    def configure(self, **settings: str) -> None:
        """Set what `spark-pipeline.yml` configures, and what `-c key=value` would replace."""
        given = {
            **self.project.configuration,
            "everlog.bootstrap.servers": self.bootstrap,
            STORAGE_KEY: self.project.storage,
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        for key, value in given.items():
            self.spark.conf.set(key, value)

    def run(self, *only: str, **settings: str) -> None:
        """All that is there, once: declared flows, then streams. `a__b="c"` stands for `-c a.b=c`."""
        self.configure(**settings)
        registry = Declared()
        with graph_element_registration_context(registry):
            for path in self.project.declared_files():
                runpy.run_path(str(path), {"spark": self.spark})
        for flow in registry.flows:
            if only and flow.name not in only:
                continue
            self._finish(flow.name, self._writer(registry.outputs[flow.target], flow.func()))
        for one in self.streams():
            if only and one.name not in only:
                continue
            self._finish(one.name, one.declare())

    def streams(self) -> list[Any]:
        """The flows on Structured Streaming."""
        for path in self.project.stream_files():
            runpy.run_path(str(path), {"spark": self.spark})
        return take_declared()

    def checkpoint(self, name: str) -> str:
        """Where a flow's checkpoint is."""
        return str(self.storage / "_checkpoints" / name)

    def _writer(self, output: Output, frame: Any) -> Any:
        writer = frame.writeStream.outputMode("append")
        if isinstance(output, Sink):
            return writer.format(output.format).options(**output.options)
        assert isinstance(output, StreamingTable)
        columns = list(output.partition_cols or [])
        path = str(self.storage / "warehouse" / output.name)
        return writer.format(output.format or "parquet").partitionBy(*columns).option("path", path)

    def _finish(self, name: str, writer: Any) -> None:
        for tries_left in reversed(range(TRIES)):
            query = (
                writer.queryName(name)
                .option("checkpointLocation", self.checkpoint(name))
                .trigger(availableNow=True)
                .start()
            )
            try:
                assert query.awaitTermination(PATIENCE_S), f"flow {name} did not end: {query.status}"
                return
            except StreamingQueryException as error:
                # As a run does: Spark gives a Python that it starts ten seconds to report.
                if not tries_left or "Python worker failed to connect back" not in str(error):
                    raise
            finally:
                query.stop()

    def expected(self, name: str) -> list[dict[str, Any]]:
        """The lines of a file of what comes out."""
        text = (self.project.root / "expected" / f"{name}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


def templated(spark: Any, cluster: everlog.Cluster, folder: Path, template: str) -> Templated:
    """A project of a template with its topics and its data."""
    project = create_project(folder / template, template)
    seed_project(project, cluster.bootstrap_servers)
    return Templated(spark, project, cluster.bootstrap_servers)


def produce(bootstrap: str, topic: str, records: Iterable[dict[str, Any]]) -> None:
    """Write records in the shape of a template's data."""
    with everlog.Producer(bootstrap) as producer:
        for record in records:
            value = record["value"]
            text = value if value is None or isinstance(value, str) else json.dumps(value)
            producer.send(
                topic,
                None if text is None else text.encode(),
                record["key"].encode() if "key" in record else None,
                headers=[(key, value.encode()) for key, value in record.get("headers", {}).items()],
                partition=record.get("partition"),
                timestamp=record.get("timestamp"),
            )


def read(bootstrap: str, topic: str) -> list[everlog.ConsumerRecord]:
    """All that is committed in a topic, partition by partition."""
    with everlog.Consumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        places = [everlog.TopicPartition(topic, part.index) for part in consumer.partitions_for(topic)]
        consumer.assign(places)
        ends = consumer.end_offsets(*places)
        records: list[everlog.ConsumerRecord] = []
        while any(consumer.position(place) < ends[place] for place in places):
            records += consumer.poll(0.2)
    return sorted(records, key=lambda record: (record.partition, record.offset))


Shape = tuple[str | None, str | None]


def shape(key: str | bytes | None, value: Any) -> Shape:
    """A key and a value so that two that mean the same are equal."""
    text = value.decode() if isinstance(value, bytes) else value
    if isinstance(text, str):
        try:
            text = json.loads(text)
        except ValueError:
            pass
    named = key.decode() if isinstance(key, bytes) else key
    return named, text if text is None or isinstance(text, str) else json.dumps(text, sort_keys=True)


def assert_holds(bootstrap: str, topic: str, expected: Iterable[dict[str, Any]]) -> None:
    """The topic has these records and no others, each as often as expected."""
    found = Counter(shape(record.key, record.value) for record in read(bootstrap, topic))
    assert found == Counter(shape(record.get("key"), record["value"]) for record in expected)


def lag_of(bootstrap: str, group: str) -> int:
    """How many records a group has not read yet; AssertionError if it has committed nothing."""
    with everlog.Admin(bootstrap) as admin:
        lags = admin.group_lag(group)
    assert lags, f"group {group} has committed nothing"
    return sum(lag.lag or 0 for lag in lags)
