"""`everlog pipeline status`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from everlog.cli.command import command
from everlog.cli.connect import open_admin
from everlog.cli.output import Block, Cell, Fields, Line, Report, Table
from everlog.cli.pipeline_options import cluster_option, open_project, project_argument, servers
from everlog.cli.shapes import span_text, time_text
from everlog.model.errors import EverlogError

if TYPE_CHECKING:
    from everlog.pipelines.lag import FlowLag
    from everlog.pipelines.run_record import RunRecord

EXAMPLES = """
$ everlog pipeline status sales
$ everlog pipeline status sales --partitions
$ everlog pipeline status sales --json | jq '.flows[].lag'
"""


@command("status", examples=EXAMPLES)
@project_argument
@click.option("--partitions", "by_partition", is_flag=True, help="Show each partition of each flow.")
@cluster_option
def status(*, project_path: Path, by_partition: bool, bootstrap: str | None, timeout: float) -> Report:
    """Show the last run of a project, how far its flows are, and what they are behind.

    It reads checkpoints and the topics' ends and starts no Spark; it works while the pipeline runs.
    """
    from everlog.pipelines.checkpoints import read_checkpoints
    from everlog.pipelines.lag import end_offsets, flow_lags
    from everlog.pipelines.run_record import read_record, running_process

    project = open_project(project_path)
    cluster = servers(project, bootstrap)
    record = read_record(project)
    errors: list[str] = []
    checkpoints = read_checkpoints(project.local_storage) if project.local_storage is not None else []
    if project.local_storage is None:
        errors.append(f"checkpoints at {project.storage} are not shown: expected a storage on this machine")
    ends = None
    if any(checkpoint.done for checkpoint in checkpoints):
        try:
            with open_admin(cluster, timeout) as admin:
                ends = end_offsets(admin, checkpoints)
        except EverlogError as error:
            # What the checkpoints say is worth showing without the cluster.
            errors.append(f"no lag is shown: {error}")
    lags = flow_lags(checkpoints, ends or {})
    data: dict[str, object] = {
        "project": project.name,
        "path": str(project.root),
        "storage": project.storage,
        "bootstrap": cluster,
        "running_process": running_process(project),
        "last_run": None if record is None else _run_shape(record),
        "flows": [_flow_shape(flow) for flow in lags],
    }
    blocks: list[Block] = [_head(project.name, project.storage, record)]
    if lags:
        blocks.append(_flows(lags, record))
    else:
        blocks.append(Line("no flow has read a batch yet"))
    if by_partition and lags:
        blocks.append(_partitions(lags))
    return Report(data, blocks, errors)


def _head(name: str, storage: str, record: "RunRecord | None") -> Fields:
    pairs: list[tuple[str, Cell]] = [("pipeline", name), ("storage", storage)]
    if record is None:
        return Fields([*pairs, ("last run", "never")])
    pairs.append(("last run", f"{record.state}, began {time_text(record.started_ms)} on {record.master}"))
    if record.ended_ms is not None:
        pairs.append(("took", span_text(record.ended_ms - record.started_ms)))
    if record.problem:
        pairs.append(("problem", record.problem))
    return Fields(pairs)


def _flows(lags: "list[FlowLag]", record: "RunRecord | None") -> Table:
    last = {str(flow["flow"]): flow for flow in (record.flows if record is not None else [])}
    rows: list[tuple[Cell, ...]] = []
    for flow in lags:
        ran = last.get(flow.flow, {})
        topics = sorted({place.topic for place in flow.partitions})
        rows.append((flow.flow, ", ".join(topics) or None, flow.batch, ran.get("rows_in"), flow.lag))
    return Table(("FLOW", "READS", "BATCH", "ROWS IN LAST RUN", "LAG"), rows)


def _partitions(lags: "list[FlowLag]") -> Table:
    return Table(
        ("FLOW", "TOPIC", "PARTITION", "OFFSET", "END", "LAG"),
        [
            (flow.flow, place.topic, place.partition, place.offset, place.end, place.lag)
            for flow in lags
            for place in flow.partitions
        ],
    )


def _run_shape(record: "RunRecord") -> dict[str, object]:
    from dataclasses import asdict

    return asdict(record)


def _flow_shape(flow: "FlowLag") -> dict[str, object]:
    return {
        "flow": flow.flow,
        "batch": flow.batch,
        "lag": flow.lag,
        "partitions": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": place.offset,
                "end": place.end,
                "lag": place.lag,
            }
            for place in flow.partitions
        ],
    }
