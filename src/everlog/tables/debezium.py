"""Change events of Debezium: what happened to a row of a database, and the row before and after.

`{"before": …, "after": …, "op": "c", "ts_ms": …, "source": …}`, in JSON with or without
`{"schema": …, "payload": …}` around it. Operations c (created), r (read in a snapshot), u (updated) have a
row after; d (deleted) has one before, of which often only the key is filled in. Others, such as t (truncated)
and m (message), are no rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everlog.tables.arrow import Array, Schema, pa, pc
from everlog.values import decoder

UPSERTS = pa.array(["c", "r", "u"])
DELETE = "d"


@dataclass(frozen=True, slots=True)
class Events:
    """Change events as columns."""

    columns: dict[str, Array]
    """The row after, or before it was deleted."""
    op: Array
    errors: Array
    """Why a value is no event; null where it is one, and for a tombstone."""


class Envelope:
    """Takes events out of their envelopes."""

    def __init__(self, value_format: str, columns: Schema, settings: Mapping[str, str]) -> None:
        row = pa.struct(list(columns))
        event = [pa.field("before", row), pa.field("after", row), pa.field("op", pa.string())]
        self._columns = columns
        self._is_wrapped = value_format == "json"
        """Only JSON may have a schema beside the payload."""
        wrapped = [pa.field("payload", pa.struct(event))] if self._is_wrapped else []
        self._decoder = decoder(value_format, pa.schema([*event, *wrapped]), settings)

    def unwrap(self, values: Array) -> Events:
        """Read a column of values."""
        decoded = self._decoder.decode(values)
        event: dict[str, Any] = {
            name: pc.struct_field(decoded.columns, name) for name in ("before", "after", "op")
        }
        if self._is_wrapped:
            payload = pc.struct_field(decoded.columns, "payload")
            is_inner = payload.is_valid()
            columns = {
                side: {
                    each.name: pc.if_else(
                        is_inner,
                        pc.struct_field(pc.struct_field(payload, side), each.name),
                        pc.struct_field(event[side], each.name),
                    )
                    for each in self._columns
                }
                for side in ("before", "after")
            }
            op = pc.if_else(is_inner, pc.struct_field(payload, "op"), event["op"])
            has_after = pc.if_else(
                is_inner, pc.struct_field(payload, "after").is_valid(), event["after"].is_valid()
            )
        else:
            columns = {
                side: {each.name: pc.struct_field(event[side], each.name) for each in self._columns}
                for side in ("before", "after")
            }
            op, has_after = event["op"], event["after"].is_valid()
        is_delete = pc.fill_null(pc.equal(op, DELETE), False)
        chosen = {
            each.name: pc.if_else(is_delete, columns["before"][each.name], columns["after"][each.name])
            for each in self._columns
        }
        return Events(chosen, op, _errors(values, op, has_after, is_delete, decoded.errors))


def _errors(values: Array, op: Array, has_after: Array, is_delete: Array, errors: Array) -> Array:
    is_upsert = pc.is_in(op, value_set=UPSERTS)
    unknown = pc.binary_join_element_wise(
        pa.scalar("operation "),
        pc.fill_null(op, "null"),
        pa.scalar(" of Debezium: expected c, r, u or d"),
        "",
    )
    said = pc.if_else(
        pc.or_(is_upsert, is_delete),
        pc.if_else(pc.and_(is_upsert, pc.invert(has_after)), "event of Debezium without a row after", None),
        pc.if_else(op.is_null(), "no event of Debezium: it has no op", unknown),
    )
    # A null value is a tombstone; its key says all there is to say.
    said = pc.if_else(values.is_null(), pa.scalar(None, pa.string()), said)
    return pc.coalesce(errors, said)
