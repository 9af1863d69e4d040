"""From staged rows to a change of the table: what is added, what is replaced, what is remembered."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from everlog.tables.arrow import Array, Rows, one_array, pa, pc
from everlog.tables.directory import STAGED, fresh_name
from everlog.tables.errors import StagedLost
from everlog.tables.offsets import Coverage, OffsetRanges
from everlog.tables.schema import DELETED, conformed, key_columns
from everlog.tables.spec import TableSpec
from everlog.tables.staging import DataFile, Staged
from everlog.tables.store import Store, View
from everlog.tables.upsert import (
    GRAVES,
    IDENTITY,
    ORDER,
    graves_of,
    identity,
    latest,
    matched,
    not_covered,
    open_graves,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a commit will do, files written."""

    add: Sequence[DataFile]
    remove: Sequence[DataFile]
    graves: str | None
    rows: int
    deleted: int
    written: list[str] = field(default_factory=list[str])
    """Paths of files made for this plan alone: orphans if it is not carried out."""


@dataclass(frozen=True, slots=True)
class Came:
    """Where the rows of a batch came from."""

    ranges: OffsetRanges
    taken: Coverage
    """Offsets whose rows the table has: those of the batch are left out."""


def plan_append(store: Store, view: View, staged: Sequence[Staged], came: Came) -> Plan:
    """Take the files as they are; only if the table has some of the rows, write them anew without those."""
    files = [file for each in staged for file in each.files]
    for file in files:
        path = store.directory.relative(file.path)
        if not store.directory.exists(path):
            raise StagedLost(f"staged file {path} is gone: it was older than orphans may become")
    if not came.taken.overlaps(came.ranges):
        return Plan(files, (), view.state.graves, sum(file.rows for file in files), 0)
    fresh = not_covered(store.read(view, files), came.taken)
    add = store.write(view, [fresh]) if fresh.num_rows else []
    return Plan(
        add, (), view.state.graves, fresh.num_rows, 0, [store.directory.relative(file.path) for file in add]
    )


def plan_upsert(spec: TableSpec, store: Store, view: View, staged: Sequence[Staged], came: Came) -> Plan:
    """Replace the files that hold older rows of changed keys; the others stay as they are."""
    key = key_columns(spec)
    changes = latest(not_covered(_changes(spec, store, view, staged), came.taken), key)
    identities = identity(changes, key)
    stale = pa.array([], pa.int32())
    remove: list[DataFile] = []
    masks: list[Array] = []
    deleted = 0
    for file in view.files:
        rows = store.read(view, [file], list(dict.fromkeys([*key, *ORDER])))
        found = matched(rows, identity(rows, key), changes, identities)
        stale = pa.concat_arrays([stale, found.stale])
        if found.beaten_count:
            remove.append(file)
            masks.append(found.beaten)
            deleted += int(pc.sum(one_array(changes[DELETED]).take(found.by)).as_py() or 0)
    graves = _graves(store, view)
    buried = matched(graves, one_array(graves[IDENTITY]), changes, identities)
    stale = pa.concat_arrays([stale, buried.stale])
    places = pa.array(range(changes.num_rows), pa.int32())
    live = pc.invert(pc.is_in(places, value_set=stale))
    changes, identities = changes.filter(live), identities.filter(live)
    covered = view.state.covered.plus(came.ranges)
    graves_path = _keep_graves(
        store, graves.filter(pc.invert(buried.beaten)), graves_of(changes, identities, covered), covered
    )
    gone = one_array(changes.column(DELETED))
    inserts = changes.filter(pc.invert(gone)).drop_columns([DELETED])

    def content() -> Iterator[Rows]:
        for file, beaten in zip(remove, masks, strict=True):
            kept = store.read(view, [file]).filter(pc.invert(beaten))
            if kept.num_rows:
                yield kept
        if inserts.num_rows:
            yield inserts

    add = store.write(view, content())
    written = [store.directory.relative(file.path) for file in add]
    return Plan(
        add,
        remove,
        graves_path,
        inserts.num_rows,
        deleted,
        [*written, *([graves_path] if graves_path is not None else [])],
    )


def _changes(spec: TableSpec, store: Store, view: View, staged: Sequence[Staged]) -> Rows:
    tables: list[Rows] = []
    for file in (file for each in staged for file in each.changes):
        if not store.directory.exists(file.path):
            raise StagedLost(f"staged file {file.path} is gone: it was older than orphans may become")
        tables.append(conformed(spec.name, store.directory.read_rows(file.path), view.schema, (DELETED,)))
    schema = pa.schema([*view.schema, pa.field(DELETED, pa.bool_())])
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _graves(store: Store, view: View) -> Rows:
    if view.state.graves is None:
        return GRAVES.empty_table()
    return conformed("graves", store.directory.read_rows(view.state.graves), GRAVES)


def _keep_graves(store: Store, old: Rows, new: Rows, covered: Coverage) -> str | None:
    graves = pa.concat_tables([open_graves(old, covered), new])
    if not graves.num_rows:
        return None
    path = fresh_name(STAGED, ".graves.parquet")
    store.directory.write_rows(path, graves)
    return path
