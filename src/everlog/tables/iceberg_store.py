"""Iceberg tables by pyiceberg, in a SQLite catalog beside the table unless another is named.

Our state is a property of the table that changes in the same transaction as its files; each snapshot's
summary says which batch it was, and which offsets. pyiceberg does not retry: `commit.retry.num-retries` is 0.
"""

import json
import pickle
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

from everlog.tables.arrow import Rows, Schema, pa
from everlog.tables.directory import Directory
from everlog.tables.errors import NoSuchTable, TableError, extra_missing
from everlog.tables.file_sizes import cut, partition_text, target_bytes
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
RETRIES = "commit.retry.num-retries"


class _Scan:
    """A table of pyiceberg, and its files once they are asked for: that reads all manifests."""

    def __init__(self, table: Any, snapshot_id: int | None) -> None:
        self.table = table
        self._snapshot_id = snapshot_id

    @cached_property
    def tasks(self) -> dict[str, Any]:
        return {
            task.file.file_path: task for task in self.table.scan(snapshot_id=self._snapshot_id).plan_files()
        }

    def list_files(self) -> list[DataFile]:
        specs = self.table.specs()
        return [_data_file(task.file, specs[task.file.spec_id]) for task in self.tasks.values()]


class IcebergStore:
    """A store in an Iceberg catalog. pyiceberg is typed in part, not all we need of it is public: `Any`."""

    def __init__(self, spec: TableSpec) -> None:
        try:
            self._catalogs: Any = import_module("pyiceberg.catalog")
            self._errors: Any = import_module("pyiceberg.exceptions")
            self._arrow: Any = import_module("pyiceberg.io.pyarrow")
            self._scanning: Any = import_module("pyiceberg.table")
            self._locked: Any = import_module("sqlalchemy.exc").OperationalError
        except ImportError as error:
            raise extra_missing("pyiceberg", f"Iceberg table {spec.name}") from error
        self.directory = Directory(spec.location)
        self._spec = spec
        self._target = target_bytes(spec.properties)
        self._namespace = spec.properties.get("iceberg.namespace", "everlog")
        self._name = f"{self._namespace}.{spec.name.replace('.', '_')}"
        self._opened: Any = None

    @property
    def _catalog(self) -> Any:
        if self._opened is None:
            given = {
                name.removeprefix("iceberg.catalog."): value
                for name, value in self._spec.properties.items()
                if name.startswith("iceberg.catalog.")
            }
            if "uri" not in given:
                if not self.directory.is_local:
                    raise TableError(
                        f"table {self._spec.name}: location {self._spec.location!r} is remote: expected "
                        "the property iceberg.catalog.uri, as a catalog beside the table must be local"
                    )
                parent = self.directory.root.rpartition("/")[0]
                given |= {
                    "type": "sql",
                    "uri": f"sqlite:///{parent}/catalog.db",
                    "warehouse": Directory(parent).uri,
                }
                Directory(parent).make()
            self._opened = self._catalogs.load_catalog("everlog", **given)
        return self._opened

    def create(self, schema: Schema) -> None:
        """Make an empty table, if there is none."""
        if self._catalog.table_exists(self._name):
            return
        try:
            self._catalog.create_namespace_if_not_exists(self._namespace)
            table_schema = _with_ids(schema)
            self._catalog.create_table_if_not_exists(
                self._name,
                table_schema,
                location=self.directory.uri,
                partition_spec=self._partition_spec(table_schema),
                properties={
                    RETRIES: "0",
                    STATE: State().dump(),
                    "write.target-file-size-bytes": str(self._target),
                    "write.metadata.delete-after-commit.enabled": "true",
                    "write.metadata.previous-versions-max": "20",
                    "write.parquet.compression-codec": "zstd",
                },
            )
        except (self._errors.TableAlreadyExistsError, self._errors.NamespaceAlreadyExistsError, self._locked):
            # Two that create it at once: one of them made it.
            self._catalog.load_table(self._name)

    def _partition_spec(self, schema: Any) -> Any:
        partitioning: Any = import_module("pyiceberg.partitioning")
        transforms: Any = import_module("pyiceberg.transforms")
        return partitioning.PartitionSpec(
            *(
                partitioning.PartitionField(
                    source_id=schema.find_field(name).field_id,
                    field_id=1000 + at,
                    transform=transforms.IdentityTransform(),
                    name=name,
                )
                for at, name in enumerate(self._spec.partition_by)
            )
        )

    def load(self, version: str | None = None) -> View:
        """The current snapshot, or another that has not expired."""
        try:
            table = self._catalog.load_table(self._name)
        except (self._errors.NoSuchTableError, self._errors.NoSuchNamespaceError) as error:
            raise NoSuchTable(
                f"table {self._spec.name}: there is no Iceberg table {self._name} in the catalog "
                f"for {self._spec.location}"
            ) from error
        chosen = None if version is None else int(version)
        if chosen is not None and table.snapshot_by_id(chosen) is None:
            raise NoSuchTable(f"table {self._spec.name}: there is no snapshot {version}, or not any more")
        native = _Scan(table, chosen)
        snapshot = table.current_snapshot()
        if version is None:
            version = "0" if snapshot is None else str(snapshot.snapshot_id)
        told: Any = table.properties
        if chosen is not None:
            told = table.snapshot_by_id(chosen).summary.additional_properties
        state = State.load(told[STATE]) if STATE in told else State()
        return View(version, plain_schema(table.schema().as_arrow()), state, native.list_files, native=native)

    def partitioned_by(self, view: View) -> tuple[str, ...]:
        """The columns of the partition spec, which other tools may have changed."""
        table = view.native.table
        return tuple(table.schema().find_column_name(each.source_id) for each in table.spec().fields)

    def evolve(self, view: View, schema: Schema) -> bool:
        """Add the columns in a transaction of its own."""
        table = view.native.table
        new = pa.schema([column for column in schema if column.name not in view.schema.names])
        try:
            with table.update_schema() as update:
                update.union_by_name(_with_ids(new))
        except (self._errors.CommitFailedException, self._locked):
            return False
        return True

    def write(self, view: View, rows: Iterable[Rows]) -> list[DataFile]:
        """Files as the table's partition spec wants them."""
        table = view.native.table
        written: list[DataFile] = []
        for piece in cut(rows, self._target):
            made = self._arrow._dataframe_to_data_files(table.metadata, piece, table.io)
            written += [_data_file(file, table.spec()) for file in made]
        return written

    def read(self, view: View, files: Sequence[DataFile], columns: Sequence[str] | None = None) -> Rows:
        """Read the files as a scan does, foreign delete files included."""
        table = view.native.table
        schema = view.schema if columns is None else pa.schema([view.schema.field(name) for name in columns])
        if not files:
            return schema.empty_table()
        tasks = view.native.tasks
        chosen = [
            tasks[file.path] if file.path in tasks else self._scanning.FileScanTask(pickle.loads(file.native))
            for file in files
        ]
        projected = table.schema() if columns is None else table.schema().select(*columns)
        always: Any = import_module("pyiceberg.expressions").AlwaysTrue()
        rows = self._arrow.ArrowScan(table.metadata, table.io, projected, always).to_table(chosen)
        return conformed(self._spec.name, rows, schema)

    def swap(self, view: View, change: Change) -> str | None:
        """One transaction: the files, the state, the summary."""
        table = view.native.table
        summary = {OPERATION: change.operation, STATE: change.state.dump()}
        if change.writer is not None:
            summary |= {
                WRITER: change.writer,
                BATCH: str(change.batch_id),
                OFFSETS: json.dumps(change.offsets.dump(), separators=(",", ":")),
            }
        try:
            transaction = table.transaction()
            transaction.set_properties({STATE: change.state.dump(), RETRIES: "0"})
            updates = transaction.update_snapshot(snapshot_properties=summary)
            update = updates.overwrite() if change.remove else updates.merge_append()
            for file in change.add:
                update.append_data_file(pickle.loads(file.native))
            for file in change.remove:
                update.delete_data_file(view.native.tasks[file.path].file)
            update.commit()
            made = transaction.commit_transaction()
        except (self._errors.CommitFailedException, self._locked):
            return None
        return str(made.current_snapshot().snapshot_id)

    def destroy(self) -> None:
        """Take the table out of the catalog, then remove its files."""
        try:
            self._catalog.drop_table(self._name)
        except self._errors.NoSuchTableError:
            pass
        self.directory.remove_all("")

    def history(self) -> list[Commit]:
        """Snapshots that have not expired."""
        commits: list[Commit] = []
        for snapshot in self.load().native.table.metadata.snapshots:
            told: Any = snapshot.summary.additional_properties if snapshot.summary is not None else {}
            batch: Any = told.get(BATCH)
            commits.append(
                Commit(
                    str(snapshot.snapshot_id),
                    snapshot.timestamp_ms,
                    told.get(OPERATION) or (snapshot.summary.operation.value if snapshot.summary else ""),
                    told.get(WRITER),
                    None if batch is None else int(batch),
                    OffsetRanges.load(json.loads(told.get(OFFSETS) or "{}")),
                )
            )
        return sorted(commits, key=lambda commit: commit.timestamp_ms)

    def forget(self, before_ms: int, keep: int) -> int:
        """Expire snapshots; branches and tags keep theirs."""
        for _ in range(20):
            table = self.load().native.table
            snapshots = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0)
            held = {ref.snapshot_id for ref in table.metadata.refs.values()}
            old = [
                each.snapshot_id
                for each in snapshots[: max(0, len(snapshots) - max(keep, 1))]
                if each.timestamp_ms < before_ms and each.snapshot_id not in held
            ]
            if not old:
                return 0
            try:
                table.maintenance.expire_snapshots().by_ids(old).commit()
            except (self._errors.CommitFailedException, self._locked):
                continue
            return len(old)
        return 0

    def needed(self, before_ms: int, keep: int) -> set[str]:
        """Data files, manifests and metadata that any snapshot of the table reaches."""
        view = self.load()
        table = view.native.table
        metadata = table.metadata
        paths = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
        paths |= {each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)}
        for snapshot in metadata.snapshots:
            paths.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                paths.add(manifest.manifest_path)
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                    paths.add(entry.data_file.file_path)
        needed = {self.directory.relative(path) for path in paths}
        if view.state.graves is not None:
            needed.add(view.state.graves)
        return needed


def _data_file(file: Any, spec: Any) -> DataFile:
    file.spec_id = spec.spec_id
    values = {each.name: partition_text(file.partition[at]) for at, each in enumerate(spec.fields)}
    return DataFile(file.file_path, file.record_count, file.file_size_in_bytes, values, pickle.dumps(file))


def _with_ids(schema: Schema) -> Any:
    """An Iceberg schema with field ids of its own."""
    arrow: Any = import_module("pyiceberg.io.pyarrow")
    schemas: Any = import_module("pyiceberg.schema")
    return schemas.assign_fresh_schema_ids(arrow._pyarrow_to_schema_without_ids(schema))
