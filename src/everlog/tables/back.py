"""A table's rows back into a topic, once each.

Rows go out in transactions; each also commits, for a group of its own, which commit of the table it sends
and how many of its rows are out. So a crash costs nothing: the next run reads the same commit on from there.
When a commit was sent in full, the next run sends the rows that came from offsets which it did not have.
So of rows that have left the table, and of those that name no offset, it does not know what was sent.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from everlog.client import Admin, GroupMetadata, OffsetAndMetadata, Producer
from everlog.model.topics import TopicPartition
from everlog.tables import steps
from everlog.tables.arrow import Array, Rows, one_array, pa, types
from everlog.tables.errors import TableError, TableMisdeclared
from everlog.tables.offsets import Coverage
from everlog.tables.schema import KEY, META, OP
from everlog.tables.spec import TableSpec
from everlog.tables.table import Table, open_table
from everlog.values import encoder

MAX_MARK = 4000
"""Brokers take 4096 characters of metadata with an offset."""


@dataclass(frozen=True, slots=True)
class Sent:
    """How far it is."""

    version: str
    """The table's commit whose rows are sent."""
    rows: int
    """Rows that this run has sent."""
    seconds: float
    is_done: bool = False

    @property
    def rows_per_s(self) -> float:
        """Rate so far."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class _Mark:
    """What the group remembers."""

    version: str
    sent: int
    since: Coverage
    """Offsets whose rows went out with earlier commits."""
    is_done: bool

    def dump(self) -> OffsetAndMetadata:
        text = json.dumps(
            {"version": self.version, "since": self.since.dump(), "done": self.is_done}, separators=(",", ":")
        )
        if len(text) > MAX_MARK:
            raise TableError(
                f"the place in the table takes {len(text)} characters, of {MAX_MARK} that a group can keep: "
                "the table has taken in too many separate ranges of offsets; send it whole to another group"
            )
        return OffsetAndMetadata(self.sent, text)

    @classmethod
    def load(cls, found: OffsetAndMetadata) -> "_Mark":
        given = json.loads(found.metadata)
        return cls(given["version"], found.offset, Coverage.load(given["since"]), given["done"])


def send_back(
    spec: TableSpec,
    topic: str,
    *,
    key: Sequence[str] | None = None,
    group: str | None = None,
    batch_rows: int = 50_000,
    on_progress: Callable[[Sent], object] | None = None,
    client: Mapping[str, Any] | None = None,
) -> Sent:
    """Send the rows of a table to a topic as JSON objects; a row that was sent before is not sent again.

    >>> send_back(spec, "orders-restored", key=["id"])

    `key` names the columns that make the record's key: the text of the value if it is one, a JSON object if
    they are more; without it the key is that of the record the row came from. Columns `_…` are not sent. Rows
    that were deleted from an upsert table since the last run are not told; rows that name no offset go again
    with each new commit. `group` is by default one for the table and topic; another one sends all rows again.
    """
    if spec.bootstrap is None:
        raise TableMisdeclared(f"table {spec.name}: bootstrap is missing: expected the brokers' addresses")
    name = group or f"everlog-table.{spec.name}.back.{topic}"
    table = open_table(spec, create=False)
    chosen = tuple(key or ())
    for column in chosen:
        if column not in table.schema.names:
            raise TableMisdeclared(
                f"table {spec.name}: key column {column!r} is not in the table: "
                f"expected one of {table.schema.names}"
            )
    settings = dict(client or {})
    with Producer(spec.bootstrap, transactional_id=name, **settings) as producer:
        producer.init_transactions()
        with Admin(spec.bootstrap, **settings) as admin:
            place = TopicPartition(topic, 0)
            found = admin.list_group_offsets(name, [place], require_stable=True).get(place)
        mark = _next_mark(table, None if found is None else _Mark.load(found))
        sender = _Sender(table, producer, place, name, chosen, batch_rows, on_progress)
        return sender.send(mark)


def _next_mark(table: Table, last: _Mark | None) -> _Mark:
    if last is None:
        return _Mark(table.version, 0, Coverage(), is_done=False)
    if not last.is_done or last.version == table.version:
        return last
    return _Mark(table.version, 0, last.since, is_done=False)


class _Sender:
    def __init__(
        self,
        table: Table,
        producer: Producer,
        place: TopicPartition,
        group: str,
        key: tuple[str, ...],
        batch_rows: int,
        on_progress: Callable[[Sent], object] | None,
    ) -> None:
        self._table = table
        self._producer = producer
        self._place = place
        self._group = GroupMetadata(group)
        self._key = key
        self._batch_rows = batch_rows
        self._on_progress = on_progress

    def send(self, mark: _Mark) -> Sent:
        began = time.monotonic()
        rows = 0
        if not mark.is_done:
            # Taken before the rows are read: what comes meanwhile is another commit's.
            covered = self._table.coverage_of(mark.version)
            at = 0
            for part in self._table.rows_of(mark.version, mark.since):
                for start in range(0, part.num_rows, self._batch_rows):
                    piece = part.slice(start, self._batch_rows)
                    if at + piece.num_rows > mark.sent:
                        piece = piece.slice(max(0, mark.sent - at))
                        done = at + part.slice(start, self._batch_rows).num_rows
                        self._send_piece(piece, _Mark(mark.version, done, mark.since, is_done=False))
                        rows += piece.num_rows
                        self._tell(Sent(mark.version, rows, time.monotonic() - began))
                    at += part.slice(start, self._batch_rows).num_rows
            self._send_piece(None, _Mark(mark.version, at, covered, is_done=True))
        sent = Sent(mark.version, rows, time.monotonic() - began, is_done=True)
        self._tell(sent)
        return sent

    def _send_piece(self, rows: Rows | None, mark: _Mark) -> None:
        with self._producer.transaction():
            if rows is not None:
                self._producer.send_arrow(self._place.topic, records_of(rows, self._key))
            self._producer.send_offsets_to_transaction({self._place: mark.dump()}, self._group)
            steps.reached("back-sent")
        steps.reached("back-committed")

    def _tell(self, sent: Sent) -> None:
        if self._on_progress is not None:
            self._on_progress(sent)


def records_of(rows: Rows, key: Sequence[str] = ()) -> Rows:
    """Rows as records: columns `key` and `value` for `Producer.send_arrow`."""
    columns = [name for name in rows.column_names if name not in {*META.names, OP}]
    values = _json(rows, columns)
    if not key:
        keys = one_array(rows.column(KEY))
    elif len(key) == 1:
        column = one_array(rows.column(key[0]))
        keys = column if types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())
    else:
        keys = _json(rows, list(key))
    return pa.table({"key": keys, "value": values})


def _json(rows: Rows, columns: list[str]) -> Array:
    chosen = rows.select(columns)
    arrays = [one_array(column) for column in chosen.columns]
    struct = pa.StructArray.from_arrays(arrays, fields=list(chosen.schema))
    return encoder("json", chosen.schema).encode(struct)
