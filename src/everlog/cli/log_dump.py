"""`everlog log dump`: what the files of a log hold, one line an entry."""

from collections.abc import Iterator
from dataclasses import asdict
from json import dumps

import click

from everlog.cli.command import bare_command, command_name, json_option
from everlog.cli.log_files import (
    Damage,
    FileKind,
    Room,
    aborted_entries,
    base_offset_of,
    batches_in,
    kind_of,
    map_file,
    offset_entries,
    producer_snapshot,
    time_entries,
)
from everlog.cli.output import envelope
from everlog.cli.shapes import bytes_shape, time_text
from everlog.model.errors import EverlogError
from everlog.records.batch import LOG_APPEND_TIME, BatchView
from everlog.records.compression import Codec
from everlog.records.control import control_type
from everlog.records.reader import Record, read_records

EXAMPLES = """
$ everlog log dump everlog-data/orders-0/00000000000000000000.log
$ everlog log dump --records everlog-data/orders-0/*.log --json | jq .records[].value
$ everlog log dump everlog-data/orders-0/*.index everlog-data/orders-0/leader-epoch-checkpoint
$ everlog log dump --metadata everlog-data/__cluster_metadata-0/00000000000000000000.log
"""

Entry = dict[str, object]


@bare_command("dump", examples=EXAMPLES)
@click.argument(
    "paths", nargs=-1, required=True, metavar="FILE…", type=click.Path(exists=True, dir_okay=False)
)
@click.option("-r", "--records", is_flag=True, help="Also the records of each batch.")
@click.option("--metadata", is_flag=True, help="Records are those of the cluster's metadata: decode them.")
@json_option
def dump(*, paths: tuple[str, ...], records: bool, metadata: bool, as_json: bool) -> int:
    """Print what segments, indexes, snapshots and checkpoints hold.

    Files are known by their names. A damaged file is shown as far as it can be read, and the exit code
    is 1. With --json each entry is a line of JSON. The files of Apache Kafka can be read too.
    """
    damaged = False
    for path in paths:
        kind = kind_of(path)
        if not as_json:
            click.echo(f"{path}  ({kind.value})")
        for entry in _entries(path, kind, records=records or metadata, metadata=metadata):
            damaged = damaged or "damage" in entry
            if as_json:
                click.echo(envelope(command_name(), {"path": path, "kind": kind.value, **entry}))
            else:
                click.echo(_line(entry))
    return 1 if damaged else 0


def _entries(path: str, kind: FileKind, *, records: bool, metadata: bool) -> Iterator[Entry]:
    view = map_file(path)
    base_offset = base_offset_of(path)
    match kind:
        case FileKind.SEGMENT:
            for found in batches_in(view):
                if isinstance(found, Damage):
                    yield {"damage": found.problem, "position": found.position}
                elif isinstance(found, Room):
                    yield {"room": found.size, "position": found.position}
                else:
                    yield _batch_entry(*found, records=records, metadata=metadata)
        case FileKind.OFFSET_INDEX:
            for offset, position in offset_entries(view, base_offset):
                yield {"offset": offset, "position": position}
        case FileKind.TIME_INDEX:
            for timestamp, offset in time_entries(view, base_offset):
                yield {"timestamp": timestamp, "time": time_text(timestamp), "offset": offset}
        case FileKind.TXN_INDEX:
            for aborted in aborted_entries(view):
                yield asdict(aborted)
        case FileKind.PRODUCER_SNAPSHOT:
            snapshot = producer_snapshot(view)
            for producer in snapshot.entries:
                yield asdict(producer)
            if snapshot.problem is not None:
                yield {"damage": snapshot.problem}
        case FileKind.TEXT:
            for number, line in enumerate(bytes(view).decode(errors="replace").splitlines(), start=1):
                yield {"line": number, "text": line}


def _batch_entry(position: int, batch: BatchView, *, records: bool, metadata: bool) -> Entry:
    entry: Entry = {
        "position": position,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": batch.count,
        "size": batch.size,
        "codec": Codec(batch.codec).name.lower()
        if batch.codec in Codec.__members__.values()
        else batch.codec,
        "leader_epoch": batch.leader_epoch,
        "max_timestamp": batch.max_timestamp,
        "timestamp_type": "log_append" if batch.attributes & LOG_APPEND_TIME else "create",
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "crc": batch.crc,
    }
    if not records:
        return entry
    try:
        entry["records"] = [
            _record_entry(record, batch, metadata=metadata and not batch.is_control)
            for record in read_records(batch)
        ]
    except EverlogError as error:
        entry["damage"] = str(error)
    return entry


def _record_entry(record: Record, batch: BatchView, *, metadata: bool) -> Entry:
    entry: Entry = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_shape(record.key),
        "value": bytes_shape(record.value),
        "headers": [{"key": name, "value": bytes_shape(value)} for name, value in record.headers],
    }
    if batch.is_control:
        kind = control_type(record.key)
        entry["control"] = "unknown" if kind is None else kind.name.lower()
    if metadata:
        from everlog.metadata.records import decode_record

        try:
            entry["metadata"] = repr(decode_record(record.value))
        except EverlogError as error:
            entry["metadata"] = f"cannot be read: {error}"
    return entry


def _line(entry: Entry) -> str:
    if "text" in entry:
        return f"  {entry['text']}"
    if "damage" in entry and "base_offset" not in entry:
        return f"  DAMAGE at position {entry.get('position', 0)}: {entry['damage']}"
    if "base_offset" not in entry:
        return "  " + "  ".join(f"{name} {value}" for name, value in entry.items())
    lines = [_batch_line(entry)]
    records = entry.get("records")
    if isinstance(records, list):
        lines += [_record_line(record) for record in records]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # The entry is JSON.
    if "damage" in entry:
        lines.append(f"    DAMAGE: {entry['damage']}")
    return "\n".join(lines)


def _batch_line(entry: Entry) -> str:
    timestamp = entry["max_timestamp"]
    parts = [
        f"position {entry['position']}",
        f"offsets {entry['base_offset']}..{entry['last_offset']}",
        f"records {entry['count']}",
        f"size {entry['size']}",
        f"codec {entry['codec']}",
        f"epoch {entry['leader_epoch']}",
        f"time {time_text(timestamp) if isinstance(timestamp, int) else '-'}",
    ]
    if entry["producer_id"] != -1:
        parts.append(f"producer {entry['producer_id']}/{entry['producer_epoch']}")
        parts.append(f"sequence {entry['base_sequence']}")
    parts += [name for name in ("transactional", "control") if entry[name]]
    return "  " + "  ".join(parts)


def _record_line(record: Entry) -> str:
    timestamp = record["timestamp"]
    parts = [
        f"offset {record['offset']}",
        f"time {time_text(timestamp) if isinstance(timestamp, int) else '-'}",
    ]
    if "metadata" in record:
        return "    " + "  ".join([*parts, str(record["metadata"])])
    parts += [f"{name} {dumps(record[name], ensure_ascii=False)}" for name in ("key", "value")]
    if record["headers"]:
        parts.append(f"headers {dumps(record['headers'], ensure_ascii=False)}")
    if "control" in record:
        parts.append(f"control {record['control']}")
    return "    " + "  ".join(parts)
