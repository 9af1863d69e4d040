"""Delta tables by delta-rs. Our state is in the metadata of the commits, batches are app transactions, too.

delta-rs does not retry: a commit that others were quicker than fails, and is planned anew on theirs.
"""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from importlib import import_module
from typing import Any

from everlog.tables.arrow import Rows, Schema, pa, pc, types
from everlog.tables.directory import Directory, fresh_name
from everlog.tables.errors import NoSuchTable, extra_missing
from everlog.tables.file_sizes import by_partition, cut, partition_text, target_bytes
from everlog.tables.offsets import OffsetRanges
from everlog.tables.results import Commit
from everlog.tables.schema import conformed, plain_schema
from everlog.tables.spec import TableSpec
from everlog.tables.staging import DataFile
from everlog.tables.state import State
from everlog.tables.store import Change, View

STATE, OPERATION, WRITER, BATCH, OFFSETS = (
    f"everlog.{name}" for name in ("state", "operation", "writer", "batch", "offsets")
)
DATA = "data"


class DeltaStore:
    """A store in a Delta log. delta-rs is typed in part: what comes from it is `Any`."""

    def __init__(self, spec: TableSpec) -> None:
        try:
            self._delta: Any = import_module("deltalake")
            self._actions: Any = import_module("deltalake.transaction")
            self._errors: Any = import_module("deltalake.exceptions")
        except ImportError as error:
            raise extra_missing("deltalake", f"Delta table {spec.name}") from error
        self.directory = Directory(spec.location)
        self._spec = spec
        self._target = target_bytes(spec.properties)
        self._uri = self.directory.root if self.directory.is_local else self.directory.uri
        self._options = {
            name.removeprefix("delta.storage."): value
            for name, value in spec.properties.items()
            if name.startswith("delta.storage.")
        }

    def create(self, schema: Schema) -> None:
        """Make an empty table, if there is none."""
        try:
            self._delta.DeltaTable.create(
                self._uri,
                schema,
                mode="ignore",
                partition_by=list(self._spec.partition_by),
                storage_options=self._options,
                # Other tools would drop entries of the log, and our state with them.
                configuration={"delta.enableExpiredLogCleanup": "false"},
                commit_properties=self._properties(Change("create", State())),
            )
        except self._errors.DeltaError:
            # Two that create it at once: one of them made it.
            self.load()

    def load(self, version: str | None = None) -> View:
        """The newest version, or another that is in the log."""
        try:
            table = self._delta.DeltaTable(
                self._uri, version=None if version is None else int(version), storage_options=self._options
            )
        except self._errors.TableNotFoundError as error:
            raise NoSuchTable(
                f"table {self._spec.name}: there is no Delta table at {self._spec.location}"
            ) from error
        schema = plain_schema(pa.schema(table.schema().to_arrow()))
        return View(
            str(table.version()), schema, self._state(table), lambda: self._list_files(table), native=table
        )

    def _list_files(self, table: Any) -> Iterator[DataFile]:
        columns = table.metadata().partition_columns
        for action in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            values = {name: partition_text(action[f"partition.{name}"]) for name in columns}
            yield DataFile(action["path"], action["num_records"] or 0, action["size_bytes"], values)

    def _state(self, table: Any) -> State:
        # Commits of other tools have no state, so the newest that has one counts.
        depth = 1
        while True:
            entries = table.history(depth)
            for entry in entries:
                if STATE in entry:
                    return State.load(entry[STATE])
            if len(entries) < depth:
                return State()
            depth *= 8

    def partitioned_by(self, view: View) -> tuple[str, ...]:
        """The columns that the log names."""
        return tuple(view.native.metadata().partition_columns)

    def evolve(self, view: View, schema: Schema) -> bool:
        """Add the columns in a commit of their own."""
        new = pa.schema([column for column in schema if column.name not in view.schema.names])
        fields = self._delta.Schema.from_arrow(new).fields
        try:
            view.native.alter.add_columns(
                fields, commit_properties=self._properties(Change("schema", view.state))
            )
        except self._errors.CommitFailedError:
            return False
        return True

    def write(self, view: View, rows: Iterable[Rows]) -> list[DataFile]:
        """Files of about the target size; the partition columns are not in them."""
        written: list[DataFile] = []
        columns = self.partitioned_by(view)
        for piece in cut(rows, self._target):
            for values, part in by_partition(piece, columns):
                path = fresh_name(DATA)
                size = self.directory.write_rows(path, part.drop_columns(list(columns)) if columns else part)
                texts = {name: partition_text(value) for name, value in values.items()}
                written.append(DataFile(path, part.num_rows, size, texts, _stats(part, columns)))
        return written

    def read(self, view: View, files: Sequence[DataFile], columns: Sequence[str] | None = None) -> Rows:
        """Read the files, and put the partition columns back."""
        schema = view.schema if columns is None else pa.schema([view.schema.field(name) for name in columns])
        tables: list[Rows] = []
        for file in files:
            rows = self.directory.read_rows(file.path, schema.names)
            if not rows.num_columns:
                rows = pa.table({"": pa.nulls(file.rows)})
            for name, text in file.partition.items():
                if name in schema.names:
                    kind = schema.field(name).type
                    scalar = pa.scalar(_value(text, kind), kind)
                    rows = rows.append_column(name, pa.repeat(scalar, rows.num_rows))
            if "" in rows.column_names:
                rows = rows.drop_columns([""])
            tables.append(conformed(self._spec.name, rows, schema))
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def swap(self, view: View, change: Change) -> str | None:
        """Commit the actions as the next version, or not at all."""
        now = time.time_ns() // 1_000_000
        is_change = change.operation != "compact"
        actions: list[Any] = [
            self._actions.AddAction(
                file.path, file.size_bytes, dict(file.partition), now, is_change, file.native.decode()
            )
            for file in change.add
        ]
        actions += [
            self._actions.RemoveAction(file.path, is_change, now, file.size_bytes, dict(file.partition))
            for file in change.remove
        ]
        try:
            view.native.create_write_transaction(
                actions,
                "append",
                view.native.schema(),
                partition_by=list(self.partitioned_by(view)),
                commit_properties=self._properties(change),
            )
        except self._errors.CommitFailedError:
            return None
        return str(int(view.version) + 1)

    def destroy(self) -> None:
        """Remove the log first, so that there is no table without its files."""
        self.directory.remove_all("_delta_log")
        self.directory.remove_all("")

    def history(self) -> list[Commit]:
        """Versions whose entries are in the log."""
        entries = self.load().native.history()
        return [
            Commit(
                str(entry["version"]),
                entry["timestamp"],
                entry.get(OPERATION) or str(entry.get("operation", "")).lower(),
                entry.get(WRITER),
                entry.get(BATCH),
                OffsetRanges.load(json.loads(entry.get(OFFSETS) or "{}")),
            )
            for entry in reversed(entries)
        ]

    def forget(self, before_ms: int, keep: int) -> int:
        """Have delta-rs drop those entries of its log that its own retention lets go.

        The newest entry with our state may be among them, so the state is written down anew first.
        """
        for _ in range(20):
            view = self.load()
            if self.swap(view, Change("keep", view.state)) is not None:
                break
        else:
            return 0
        table = self.load().native
        before = len(table.history())
        table.create_checkpoint()
        table.cleanup_metadata()
        return int(before - len(self.load().native.history()))

    def needed(self, before_ms: int, keep: int) -> set[str]:
        """Files of the versions that may still be travelled to."""
        newest = self.load()
        needed = {file.path for file in newest.files}
        if newest.state.graves is not None:
            needed.add(newest.state.graves)
        entries = newest.native.history()
        kept = [
            entry["version"]
            for at, entry in enumerate(entries)
            if at < max(keep, 1) or entry["timestamp"] >= before_ms
        ]
        for version in kept:
            past = self._delta.DeltaTable(self._uri, version=version, storage_options=self._options)
            needed.update(self.directory.relative(uri) for uri in past.file_uris())
        needed.update(found.path for found in self.directory.walk("_delta_log"))
        return needed

    def _properties(self, change: Change) -> Any:
        told: dict[str, Any] = {STATE: change.state.dump(), OPERATION: change.operation}
        transactions: list[Any] = []
        if change.writer is not None and change.batch_id is not None:
            told |= {
                WRITER: change.writer,
                BATCH: change.batch_id,
                OFFSETS: json.dumps(change.offsets.dump(), separators=(",", ":")),
            }
            transactions.append(self._delta.Transaction(change.writer, change.batch_id))
        return self._delta.CommitProperties(
            custom_metadata=told, max_commit_retries=0, app_transactions=transactions or None
        )


def _stats(rows: Rows, partition_by: Sequence[str]) -> bytes:
    """What readers may skip a file by."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for column in rows.schema:
        kind = column.type
        if column.name in partition_by or not (types.is_integer(kind) or types.is_string(kind)):
            continue
        values = rows.column(column.name)
        nulls[column.name] = values.null_count
        found = pc.min_max(values).as_py()
        # Long strings would have to be cut with care; a file without bounds is read, which is always right.
        if found["min"] is not None and (
            types.is_integer(kind) or len(found["min"]) + len(found["max"]) < 128
        ):
            low[column.name], high[column.name] = found["min"], found["max"]
    stats = {"numRecords": rows.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps(stats).encode()


def _value(text: str | None, kind: Any) -> Any:
    if text is None or types.is_string(kind):
        return text
    if types.is_boolean(kind):
        return text == "true"
    return date.fromisoformat(text) if types.is_date32(kind) else int(text)
