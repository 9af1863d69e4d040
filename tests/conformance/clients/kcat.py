"""kcat, the command-line client: a process for each thing it does."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conformance.clients.face import (
    Client,
    ClientError,
    ClusterSeen,
    Node,
    OffsetSpec,
    Operation,
    PartitionSeen,
)
from tests.conformance.scenarios import Headers, How, Read, Record, Traits

# No record that we give it contains these, so they can part keys from values and records from each other.
_KEY_END, _RECORD_END = "\\x1f", "\\x1e"
_LARGE = 10_000


class Kcat:
    """The client under test. It creates and changes no topics, and reports no offsets of what it wrote."""

    name = "kcat"
    traits = Traits(
        timestamps=False,
        null_values=False,
        null_headers=False,
        binary_headers=False,
        empty_keys=False,
        offsets_of_writes=False,
    )
    operations: frozenset[Operation] = frozenset(("describe_topic", "list_offset", "describe_cluster"))

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(self, topic: str, records: Sequence[Record], how: How) -> list[int | None]:
        """Write runs of records that share partition and headers, one process a run."""
        flags = ["-z", how.codec, "-X", f"acks={how.acks}", "-X", "message.max.bytes=1048588"]
        if how.idempotent:
            flags += ["-X", "enable.idempotence=true"]
        for (partition, headers, keyed, large), run in groupby(records, _run_of):
            where = ["-P", "-t", topic, "-p", str(partition), *flags]
            for name, value in headers:
                where += ["-H", f"{name}={(value or b'').decode()}"]
            if large:
                for record in run:
                    self._produce_file(where, record)
            else:
                self._produce_lines(where, list(run), keyed)
        return [None] * len(records)

    def _produce_file(self, where: list[str], record: Record) -> None:
        with TemporaryDirectory() as directory:
            path = Path(directory, "value")
            path.write_bytes(record.value or b"")
            self._run([*where, "-k", (record.key or b"").decode(), str(path)])

    def _produce_lines(self, where: list[str], records: list[Record], keyed: bool) -> None:
        parts = [(record.key or b"") + b"\x1f" + (record.value or b"") for record in records]
        if not keyed:
            parts = [record.value or b"" for record in records]
        flags = ["-D", _RECORD_END, *(["-K", _KEY_END] if keyed else [])]
        self._run([*where, *flags], b"\x1e".join(parts))

    def consume(self, topic: str, ends: Mapping[int, int], isolation: str = "read_committed") -> list[Read]:
        """Read each partition to its end; lengths in the output keep any bytes apart."""
        records: list[Read] = []
        for partition in ends:
            where = ["-C", "-t", topic, "-p", str(partition), "-o", "beginning", "-e", "-q"]
            shape = ["-X", f"isolation.level={isolation}", "-f", "%p %o %T %K %S %h\n%k%s\n"]
            out = self._run([*where, *shape])
            records += _parse(out)
        return records

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        raise NotImplementedError

    def delete_topic(self, topic: str) -> None:
        raise NotImplementedError

    def describe_topic(self, topic: str) -> list[PartitionSeen]:
        text = self._run(["-L", "-t", topic]).decode()
        if "UNKNOWN_TOPIC_OR_PART" in text or "Unknown topic or partition" in text:
            raise ClientError(3, text)
        line = r"partition (\d+), leader (\d+), replicas: ([\d,]+), isrs: ([\d,]+)"
        return [
            PartitionSeen(int(number), int(leader), _ids(replicas), _ids(isr))
            for number, leader, replicas, isr in re.findall(line, text)
        ]

    def describe_topic_partitions(self, topic: str) -> list[PartitionSeen]:
        raise NotImplementedError

    def add_partitions(self, topic: str, total: int) -> None:
        raise NotImplementedError

    def alter_config(self, topic: str, key: str, value: str) -> None:
        raise NotImplementedError

    def describe_config(self, topic: str) -> dict[str, str | None]:
        raise NotImplementedError

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        raise NotImplementedError

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        moment = {"earliest": -2, "latest": -1}[spec] if isinstance(spec, str) else spec
        text = self._run(["-Q", "-t", f"{topic}:{partition}:{moment}"]).decode()
        (found,) = re.findall(r"offset (-?\d+)", text)
        return int(found)

    def describe_cluster(self) -> ClusterSeen:
        text = self._run(["-L"]).decode()
        found = re.findall(r"broker (\d+) at ([^:]+):(\d+)", text)
        return ClusterSeen(None, tuple(Node(int(node), host, int(port)) for node, host, port in found))

    def describe_log_dirs(self, topic: str) -> dict[int, int]:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to do: no process outlives its call."""

    def _run(self, arguments: list[str], given: bytes = b"") -> bytes:
        done = subprocess.run(
            ["kcat", "-b", self._bootstrap, *arguments], input=given, capture_output=True, timeout=60
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout


def _run_of(record: Record) -> tuple[int, Headers, bool, bool]:
    return record.partition, record.headers, record.key is not None, len(record.value or b"") > _LARGE


def _parse(out: bytes) -> list[Read]:
    records: list[Read] = []
    at = 0
    while at < len(out):
        line_end = out.index(b"\n", at)
        partition, offset, timestamp, key_size, value_size, headers = out[at:line_end].split(b" ", 5)
        at = line_end + 1
        key, at = _take(out, at, int(key_size))
        value, at = _take(out, at, int(value_size))
        at += 1
        pairs = tuple(_header(pair) for pair in headers.split(b",") if pair)
        records.append(Read(int(partition), int(offset), key, value, pairs, int(timestamp)))
    return records


def _take(out: bytes, at: int, size: int) -> tuple[bytes | None, int]:
    return (None, at) if size < 0 else (out[at : at + size], at + size)


def _header(pair: bytes) -> tuple[str, bytes]:
    name, _, value = pair.partition(b"=")
    return name.decode(), value


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


def connect(bootstrap: str) -> Client:
    """kcat, ready to be run."""
    return Kcat(bootstrap)
