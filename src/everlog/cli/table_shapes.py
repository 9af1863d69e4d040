"""Tables as people and as programs see them."""

from collections.abc import Mapping

from everlog.cli.output import Cell, Fields
from everlog.cli.shapes import size_text, time_text
from everlog.model.topics import TopicPartition
from everlog.tables.offsets import OffsetRanges
from everlog.tables.results import Commit, Description
from everlog.tables.spec import TableSpec


def spec_shape(spec: TableSpec) -> dict[str, object]:
    """A declaration as JSON shows it."""
    return {
        "name": spec.name,
        "topic": spec.topic,
        "location": spec.location,
        "format": spec.format,
        "mode": spec.mode,
        "value_format": spec.value_format,
        "schema": spec.schema,
        "key": list(spec.key),
        "debezium": spec.debezium,
        "partition_by": list(spec.partition_by),
        "dead_letter_topic": spec.dead_letter_topic,
        "properties": dict(spec.properties),
    }


def spec_fields(spec: TableSpec) -> Fields:
    """A declaration, a line for each thing that it says."""
    pairs: list[tuple[str, Cell]] = [
        ("topic", spec.topic),
        ("location", spec.location),
        ("format", spec.format),
        ("mode", spec.mode if not spec.key else f"{spec.mode} by {', '.join(spec.key)}"),
        ("values", _values(spec)),
    ]
    if spec.partition_by:
        pairs.append(("partitioned by", ", ".join(spec.partition_by)))
    pairs.append(("dead letters", spec.dead_letter_topic or "none: an unreadable record stops it"))
    pairs += [(name, value) for name, value in sorted(spec.properties.items())]
    return Fields(pairs)


def _values(spec: TableSpec) -> str:
    if not spec.schema:
        return "text in one column" if spec.value_format == "string" else "bytes in one column"
    return f"{spec.value_format}{' of Debezium' if spec.debezium else ''}: {spec.schema}"


def state_fields(found: Description) -> Fields:
    """What is in a table now."""
    small = f", {found.small_files} of them small" if found.small_files else ""
    return Fields(
        [
            ("rows", found.rows),
            ("files", f"{found.files}{small}"),
            ("size", size_text(found.size_bytes)),
            ("version", found.version),
            ("last commit", None if found.last_commit_ms is None else time_text(found.last_commit_ms)),
        ]
    )


def state_shape(found: Description) -> dict[str, object]:
    """What is in a table now, as JSON shows it."""
    return {
        "version": found.version,
        "rows": found.rows,
        "files": found.files,
        "small_files": found.small_files,
        "size_bytes": found.size_bytes,
        "last_commit": found.last_commit_ms,
        "writers": [{"writer": name, "batch_id": batch} for name, batch in sorted(found.writers.items())],
    }


def commit_shape(commit: Commit) -> dict[str, object]:
    """An entry of a table's history, as JSON shows it."""
    return {
        "version": commit.version,
        "timestamp": commit.timestamp_ms,
        "operation": commit.operation,
        "writer": commit.writer,
        "batch_id": commit.batch_id,
        "offsets": [
            {"topic": place.topic, "partition": place.partition, "start_offset": start, "end_offset": end}
            for place, (start, end) in sorted(commit.offsets.spans.items())
        ],
    }


def offsets_text(offsets: OffsetRanges) -> str | None:
    """Ranges of offsets in a cell, such as `0: 0-99, 1: 0-57`."""
    return (
        ", ".join(
            f"{place.partition}: {start}-{end - 1}" for place, (start, end) in sorted(offsets.spans.items())
        )
        or None
    )


def lag_of(
    offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Offsets between a table and the end of each partition."""
    return {place: max(0, end - offsets.get(place, 0)) for place, end in ends.items()}
