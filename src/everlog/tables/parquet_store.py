"""Tables of plain Parquet files: a log of commits beside the data says which files are the table.

`_everlog/commits/00000000000000000007.json` is commit 7, with all files of the table. A commit is made by
linking a complete, flushed file to the next name, which fails if another writer has it: so commits have one
order, and a crash leaves either a whole commit or none. Data files of no commit are seen by nobody.
"""

import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from everlog.tables import steps
from everlog.tables.arrow import Rows, Schema, pa
from everlog.tables.directory import Directory, fresh_name, sync_file
from everlog.tables.errors import NoSuchTable, TableMisdeclared
from everlog.tables.file_sizes import by_partition, cut, partition_text, target_bytes
from everlog.tables.offsets import OffsetRanges
from everlog.tables.results import Commit
from everlog.tables.schema import conformed
from everlog.tables.spec import TableSpec
from everlog.tables.staging import DataFile
from everlog.tables.state import State
from everlog.tables.store import Change, View

DATA = "data"
COMMITS = "_everlog/commits"


class ParquetStore:
    """A store on a local directory, or one that is mounted like it."""

    def __init__(self, spec: TableSpec) -> None:
        self.directory = Directory(spec.location)
        if not self.directory.is_local:
            raise TableMisdeclared(
                f"table {spec.name}: location {spec.location!r}: a Parquet table needs a directory, "
                "as its commits are made by links; elsewhere expected format delta, or iceberg with the "
                "property iceberg.catalog.uri"
            )
        self._spec = spec
        self._target = target_bytes(spec.properties)
        self._commits = Path(self.directory.absolute(COMMITS))

    def create(self, schema: Schema) -> None:
        """Make an empty table, if there is none."""
        if self._versions():
            return
        self._commits.mkdir(parents=True, exist_ok=True)
        self._put(0, schema, (), Change("create", State()))

    def load(self, version: str | None = None) -> View:
        """The newest commit, or another that is there."""
        while versions := self._versions() if version is None else [int(version)]:
            # A commit that expires between listing and reading has a younger one behind it.
            if (found := self._get(versions[-1])) is not None:
                return View(
                    str(versions[-1]),
                    _load_schema(found["schema"]),
                    State.load(found["state"]),
                    partial(_load_files, found["files"]),
                )
            if version is not None:
                raise NoSuchTable(f"table {self._spec.name}: there is no commit {version}, or not any more")
        raise NoSuchTable(f"table {self._spec.name}: there is no Parquet table at {self._spec.location}")

    def partitioned_by(self, view: View) -> tuple[str, ...]:
        """As declared: each file tells its own values, so a later declaration may be another."""
        return self._spec.partition_by

    def evolve(self, view: View, schema: Schema) -> bool:
        """A commit that changes nothing but the columns."""
        return self._put(int(view.version) + 1, schema, view.files, Change("schema", view.state))

    def write(self, view: View, rows: Iterable[Rows]) -> list[DataFile]:
        """Files of about the target size, apart by the partition columns."""
        written: list[DataFile] = []
        for piece in cut(rows, self._target):
            for values, part in by_partition(piece, self._spec.partition_by):
                texts = {name: partition_text(value) for name, value in values.items()}
                folders = "/".join(
                    f"{name}={quote(text, safe='') if text is not None else '__HIVE_DEFAULT_PARTITION__'}"
                    for name, text in texts.items()
                )
                path = fresh_name(f"{DATA}/{folders}" if folders else DATA)
                written.append(DataFile(path, part.num_rows, self.directory.write_rows(path, part), texts))
        return written

    def read(self, view: View, files: Sequence[DataFile], columns: Sequence[str] | None = None) -> Rows:
        """Read the files; the partition columns are in them, too."""
        schema = view.schema if columns is None else pa.schema([view.schema.field(name) for name in columns])
        tables = [
            conformed(self._spec.name, self.directory.read_rows(file.path, schema.names), schema)
            for file in files
        ]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def swap(self, view: View, change: Change) -> str | None:
        """Link the next commit, if its name is free."""
        gone = {file.path for file in change.remove}
        files = [*(file for file in view.files if file.path not in gone), *change.add]
        version = int(view.version) + 1
        return str(version) if self._put(version, view.schema, files, change) else None

    def destroy(self) -> None:
        """Remove the log of commits first, so that there is no table without its files."""
        self.directory.remove_all(COMMITS)
        self.directory.remove_all("")

    def history(self) -> list[Commit]:
        """Commits that are there."""
        return [
            Commit(
                str(version),
                found["at"],
                found["operation"],
                found["writer"],
                found["batch_id"],
                OffsetRanges.load(found["offsets"]),
            )
            for version in self._versions()
            if (found := self._get(version)) is not None
        ]

    def forget(self, before_ms: int, keep: int) -> int:
        """Remove commits, the oldest first, so that those that are left have no gap."""
        versions = self._versions()
        removed = 0
        for version in versions[: max(0, len(versions) - max(keep, 1))]:
            found = self._get(version)
            if found is not None and found["at"] >= before_ms:
                break
            self._name(version).unlink(missing_ok=True)
            removed += 1
        return removed

    def needed(self, before_ms: int, keep: int) -> set[str]:
        """Files of all commits that are there, and the commits."""
        needed: set[str] = set()
        for version in self._versions():
            needed.add(f"{COMMITS}/{self._name(version).name}")
            if (found := self._get(version)) is not None:
                needed.update(file["path"] for file in found["files"])
                if (graves := State.load(found["state"]).graves) is not None:
                    needed.add(graves)
        return needed

    def _versions(self) -> list[int]:
        try:
            names = os.listdir(self._commits)
        except FileNotFoundError:
            return []
        return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())

    def _name(self, version: int) -> Path:
        return self._commits / f"{version:020}.json"

    def _get(self, version: int) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._name(version).read_bytes())
        except FileNotFoundError:
            return None
        return found

    def _put(self, version: int, schema: Schema, files: Sequence[DataFile], change: Change) -> bool:
        content = {
            "format": 1,
            "version": version,
            "at": time.time_ns() // 1_000_000,
            "operation": change.operation,
            "writer": change.writer,
            "batch_id": change.batch_id,
            "offsets": change.offsets.dump(),
            "state": change.state.dump(),
            "schema": _dump_schema(schema),
            "files": [_dump_file(file) for file in files],
        }
        if version <= (self._versions() or [-1])[-1]:
            return False
        draft = self._commits / f".{version}-{uuid.uuid4().hex}"
        try:
            draft.write_text(json.dumps(content, separators=(",", ":")))
            sync_file(str(draft))
            steps.reached("commit-drafted")
            try:
                os.link(draft, self._name(version))
            except FileExistsError:
                return False
            steps.reached("commit-linked")
            sync_file(str(self._name(version)))
        finally:
            draft.unlink(missing_ok=True)
        # A name that another commit had until it expired leads nowhere: the log has gone on. If it went
        # on from this commit, the caller finds its batch in it.
        return self._versions()[-1] == version


def _dump_schema(schema: Schema) -> str:
    return str(schema.serialize().to_pybytes().hex())


def _load_schema(text: str) -> Schema:
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))


def _dump_file(file: DataFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "rows": file.rows,
        "bytes": file.size_bytes,
        "partition": dict(file.partition),
    }


def _load_files(given: Iterable[Mapping[str, Any]]) -> list[DataFile]:
    return [DataFile(each["path"], each["rows"], each["bytes"], each["partition"]) for each in given]
