"""`everlog pipeline seed`: a project's topics and the sample data in them."""

import json
import runpy
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import click

from everlog.cli.command import command
from everlog.cli.connect import check_reachable, open_admin, open_producer
from everlog.cli.output import Block, Line, Report, Table
from everlog.cli.pipeline_options import cluster_option, open_project, project_argument, servers
from everlog.cli.record_lines import LineRecord, read_json_record
from everlog.client.core.admin.topics import NewTopic
from everlog.model.errors import ConfigError
from everlog.pipelines.project import Project, Topic

EXAMPLES = """
$ everlog pipeline seed sales
$ everlog pipeline seed sales --count 100000
$ everlog pipeline seed sales --rate 200        # as a stream, 200 records a second
"""

DEFAULT_COUNT = 1000


@command("seed", examples=EXAMPLES)
@project_argument
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=DEFAULT_COUNT,
    show_default=True,
    metavar="N",
    help="Records to make for each topic whose data is a program.",
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="At most N records a second."
)
@click.option("--topics-only", is_flag=True, help="Create topics, write nothing.")
@cluster_option
def seed(
    *,
    project_path: Path,
    count: int,
    rate: float | None,
    topics_only: bool,
    bootstrap: str | None,
    timeout: float,
) -> Report:
    """Create the topics of a project that are missing, and write its sample data to them.

    Topics and data are those of the project's everlog.toml. Data is written again with each call.
    """
    project = open_project(project_path)
    if not project.topics:
        raise ConfigError(f"project {project.name} names no topics: expected [[topics]] in its everlog.toml")
    return seed_project(project, servers(project, bootstrap), timeout, count, rate, topics_only=topics_only)


def seed_project(
    project: Project,
    bootstrap: str,
    timeout: float = 10.0,
    count: int = DEFAULT_COUNT,
    rate: float | None = None,
    *,
    topics_only: bool = False,
) -> Report:
    """Create what is missing and write the data; records of all topics are sent side by side with `rate`."""
    check_reachable(bootstrap, timeout)
    created = _create_missing(project, bootstrap, timeout)
    written: dict[str, int] = {}
    if not topics_only:
        sources = {topic.name: _records(topic, count) for topic in project.topics if topic.data is not None}
        written = _write(sources, bootstrap, timeout, rate)
    rows = [(topic.name, topic.name in created, written.get(topic.name, 0)) for topic in project.topics]
    data = {
        "project": project.name,
        "bootstrap": bootstrap,
        "topics": [{"name": name, "created": new, "records": records} for name, new, records in rows],
    }
    blocks: list[Block] = [
        Table(("TOPIC", "CREATED", "RECORDS"), rows),
        Line(f"wrote {sum(written.values()):,} records to {bootstrap}"),
    ]
    return Report(data, blocks)


def _create_missing(project: Project, bootstrap: str, timeout: float) -> set[str]:
    with open_admin(bootstrap, timeout) as admin:
        there = set(admin.list_topics(internal=True))
        missing = [
            NewTopic(topic.name, topic.partitions, configs=dict(topic.configs))
            for topic in project.topics
            if topic.name not in there
        ]
        if missing:
            admin.create_topics(missing)
    return {topic.name for topic in missing}


def _write(
    sources: dict[str, Iterator[LineRecord]], bootstrap: str, timeout: float, rate: float | None
) -> dict[str, int]:
    written = dict.fromkeys(sources, 0)
    began = time.monotonic()
    with open_producer(bootstrap, timeout, enable_idempotence=True) as producer:
        for topic, record in _in_turn(sources):
            producer.send(
                topic,
                record.value,
                record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp=record.timestamp,
            )
            written[topic] += 1
            if rate is not None:
                producer.flush()
                due = began + sum(written.values()) / rate
                time.sleep(max(0.0, due - time.monotonic()))
        producer.flush()
    return written


def _in_turn(sources: dict[str, Iterator[LineRecord]]) -> Iterator[tuple[str, LineRecord]]:
    """One record of each topic in turn, so that streams that belong together grow together."""
    left = dict(sources)
    while left:
        for topic in list(left):
            record = next(left[topic], None)
            if record is None:
                del left[topic]
            else:
                yield topic, record


def _records(topic: Topic, count: int) -> Iterator[LineRecord]:
    assert topic.data is not None, topic
    if topic.data.suffix == ".py":
        made = runpy.run_path(str(topic.data)).get("records")
        if not callable(made):
            raise ConfigError(f"{topic.data} has no function records(count)")
        return _read(topic.data, cast(Iterable[Any], made(count)))
    return _read(topic.data, _lines(topic.data))


def _plain(shape: Any) -> Any:
    """Data that people read and change has values of JSON as they are, not as strings of JSON."""
    if not isinstance(shape, dict):
        return cast(object, shape)
    fields = cast(dict[str, Any], shape)
    value: Any = fields.get("value")
    if not isinstance(value, dict | list) or set(cast(Iterable[object], value)) == {"base64"}:
        return fields
    return {**fields, "value": json.dumps(value, separators=(",", ":"))}


def _lines(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise ConfigError(f"{path} line {number} is not JSON: {error}") from None


def _read(path: Path, shapes: Iterable[Any]) -> Iterator[LineRecord]:
    for number, shape in enumerate(shapes, 1):
        try:
            yield read_json_record(json.dumps(_plain(shape)).encode(), number)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
