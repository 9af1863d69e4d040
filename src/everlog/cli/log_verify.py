"""`everlog log verify`: whether the files of a log directory, or of one partition, are what was written."""

import os
import re

import click

from everlog.cli.command import command
from everlog.cli.log_checks import Finding, Segment, check_partition
from everlog.cli.log_files import TEXT_NAMES, map_file
from everlog.cli.output import Block, Line, Report, Table
from everlog.cli.progress import Progress
from everlog.cli.shapes import counted, size_text
from everlog.edge.disk import RealFiles
from everlog.log import checkpoint
from everlog.model.errors import ConfigError, EverlogError
from everlog.model.ids import uuid_from_text
from everlog.model.topics import TopicPartition

EXAMPLES = """
$ everlog log verify everlog-data
$ everlog log verify everlog-data/orders-0 --records --json
"""

_PARTITION_NAME = re.compile(r"(.+)-(\d+)\Z")


@command("verify", examples=EXAMPLES)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option("-r", "--records", is_flag=True, help="Also unpack every batch and check each record.")
def verify(*, directory: str, records: bool) -> Report:
    """Check a log directory, or the directory of one partition.

    Every batch's length, checksum and offsets; every index entry against the batch it points to; producer
    snapshots; checkpoints. Findings go to stderr, and the exit code is 1 if there are any. Nothing is
    changed. A directory may be in use, but its last segment may then be caught half written.
    """
    partitions = _partitions(directory)
    total = sum(
        os.path.getsize(os.path.join(path, name))
        for path in partitions
        for name in os.listdir(path)
        if name.endswith(".log")
    )
    findings: list[Finding] = []
    checked: dict[str, list[Segment]] = {}
    with Progress("verify", total, "B") as progress:
        for path in partitions:
            segments, found = check_partition(path, progress.step, records=records)
            checked[os.path.basename(path)] = segments
            findings += found
            findings += _check_text_files(path, {})
    if partitions != [os.path.normpath(directory)]:
        ends = {name: segments[-1].end_offset for name, segments in checked.items() if segments}
        findings += _check_text_files(directory, ends)
    return _report(directory, checked, findings)


def _partitions(directory: str) -> list[str]:
    """The partitions below a directory, or the directory itself if it is one."""
    normal = os.path.normpath(directory)
    if any(name.endswith(".log") for name in os.listdir(normal)):
        return [normal]
    found = [
        entry.path
        for entry in sorted(os.scandir(normal), key=lambda entry: entry.name)
        if entry.is_dir() and _PARTITION_NAME.match(entry.name)
    ]
    if not found and not TEXT_NAMES.intersection(os.listdir(normal)):
        raise ConfigError(
            f"{directory} holds neither segments nor partitions: expected a log directory or a partition's"
        )
    return found


def _check_text_files(directory: str, ends: dict[str, int]) -> list[Finding]:
    """Checkpoints can be read, and none points behind the end of its partition."""
    files = RealFiles()
    findings: list[Finding] = []
    for name in (checkpoint.RECOVERY_POINTS, checkpoint.LOG_STARTS, checkpoint.HIGH_WATERMARKS):
        path = os.path.join(directory, name)
        try:
            for place, offset in checkpoint.read_offsets(files, path).items():
                end = ends.get(str(TopicPartition(*place)))
                if end is not None and offset > end:
                    findings.append(Finding(path, f"{place} is at offset {offset}, its log ends at {end}"))
        except EverlogError as error:
            findings.append(Finding(path, str(error).removeprefix(f"{path} ")))
    for name, read in (
        (checkpoint.LEADER_EPOCHS, checkpoint.read_epochs),
        (checkpoint.META_PROPERTIES, checkpoint.read_meta_properties),
    ):
        path = os.path.join(directory, name)
        try:
            read(files, path)
        except EverlogError as error:
            findings.append(Finding(path, str(error).removeprefix(f"{path} ")))
    findings += _check_partition_metadata(os.path.join(directory, checkpoint.PARTITION_METADATA))
    return findings


def _check_partition_metadata(path: str) -> list[Finding]:
    """The topic's id can be read. Kafka writes no line end behind it, so none is asked for."""
    if not os.path.exists(path):
        return []
    lines = bytes(map_file(path)).decode(errors="replace").splitlines()
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        uuid_from_text(fields.get("topic_id", ""))
    except ConfigError as error:
        return [Finding(path, f"topic_id: {error}")]
    return (
        []
        if fields.get("version") == "0"
        else [Finding(path, f"version {fields.get('version')}, expected 0")]
    )


def _report(directory: str, checked: dict[str, list[Segment]], findings: list[Finding]) -> Report:
    rows = [
        (
            name,
            len(segments),
            sum(segment.batches for segment in segments),
            sum(segment.records for segment in segments),
            size_text(sum(segment.size_bytes for segment in segments)),
            segments[0].base_offset if segments else 0,
            segments[-1].end_offset if segments else 0,
        )
        for name, segments in checked.items()
    ]
    data = {
        "directory": directory,
        "ok": not findings,
        "partitions": [
            {
                "name": name,
                "segments": len(segments),
                "batches": sum(segment.batches for segment in segments),
                "records": sum(segment.records for segment in segments),
                "bytes": sum(segment.size_bytes for segment in segments),
                "start_offset": segments[0].base_offset if segments else 0,
                "end_offset": segments[-1].end_offset if segments else 0,
            }
            for name, segments in checked.items()
        ],
        "findings": [
            {"path": finding.path, "position": finding.position, "problem": finding.problem}
            for finding in findings
        ],
    }
    header = ("PARTITION", "SEGMENTS", "BATCHES", "RECORDS", "SIZE", "START", "END")
    verdict = "no damage found" if not findings else counted(len(findings), "finding")
    blocks: list[Block] = [Table(header, rows), Line(verdict)]
    return Report(data, blocks, [str(finding) for finding in findings])
