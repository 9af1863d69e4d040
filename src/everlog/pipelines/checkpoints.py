"""How far flows have come, from their checkpoints alone: no Spark is started for it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from everlog.model.topics import TopicPartition
from everlog.spark.offset_log import read_offset_log

CHECKPOINTS = "_checkpoints"
STREAMS = "_streams"

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One flow's place in its topics. An end offset is exclusive: the next record to read."""

    flow: str
    batch: int | None
    """The last batch that is done; None before the first."""
    done: Offsets = field(default_factory=dict[TopicPartition, int])
    """Where the next batch begins, by partition; topics alone, other sources have no place here."""
    planned: Offsets = field(default_factory=dict[TopicPartition, int])
    """Where the batch that was begun will end; the same as `done` if none was begun."""


def read_checkpoints(storage: Path) -> list[Checkpoint]:
    """The checkpoints of all flows below a storage, by name; of a flow that was refreshed, the newest."""
    newest: dict[str, tuple[int, Path]] = {}
    for kind in (CHECKPOINTS, STREAMS):
        for path in _directories(storage / kind):
            number = int(path.name) if path.name.isdigit() else 0
            flow = _flow_name(path.relative_to(storage / kind).parts)
            if flow not in newest or newest[flow][0] < number:
                newest[flow] = number, path
    return [_read(flow, path) for flow, (_, path) in sorted(newest.items())]


def short_flow(name: str) -> str:
    """A flow's name as people say it: without the catalog and the database that are always the same."""
    return re.sub(r"^spark_catalog\.default\.", "", name)


def _directories(root: Path) -> Iterator[Path]:
    if root.is_dir():
        yield from (path.parent for path in root.rglob("offsets") if (path.parent / "commits").is_dir())


def _flow_name(parts: tuple[str, ...]) -> str:
    # catalog/database/table/flow/0 of a table, sink/flow/0 of a sink, stream/0. A flow's name, as Spark's
    # events have it, is catalog.database.flow or flow.
    named = parts[:-1] if parts[-1].isdigit() else parts
    return short_flow(".".join((*named[:-2], named[-1])))


def _read(flow: str, path: Path) -> Checkpoint:
    done = _last(path / "commits")
    planned = _last(path / "offsets")
    return Checkpoint(
        flow,
        done,
        {} if done is None else _offsets(path / "offsets" / str(done)),
        {} if planned is None else _offsets(path / "offsets" / str(planned)),
    )


def _last(directory: Path) -> int | None:
    batches = [int(path.name) for path in directory.iterdir() if path.name.isdigit()]
    return max(batches, default=None)


def _offsets(path: Path) -> Offsets:
    try:
        # Two sources of one flow may read one topic: what counts is the one that is behind.
        return read_offset_log(path.read_text("utf-8")).ends
    except (OSError, UnicodeDecodeError):
        return {}  # Spark removes old ones while we read.
