"""Columns as Spark and SQL write them."""

import pytest

from everlog.tables.arrow import DataType, pa
from everlog.tables.ddl import parse_ddl
from everlog.tables.errors import TableMisdeclared


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("long", pa.int64()),
        ("BIGINT", pa.int64()),
        ("int", pa.int32()),
        ("short", pa.int32()),
        ("double", pa.float64()),
        ("float", pa.float32()),
        ("boolean", pa.bool_()),
        ("string", pa.string()),
        ("varchar(20)", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal(12,2)", pa.decimal128(12, 2)),
        ("decimal", pa.decimal128(10, 0)),
        ("array<array<int>>", pa.list_(pa.list_(pa.int32()))),
        ("map<string, long>", pa.map_(pa.string(), pa.int64())),
        ("struct<a: int, b string>", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ],
)
def test_types(text: str, kind: DataType) -> None:
    assert parse_ddl(f"x {text}").field("x").type == kind


def test_columns_stay_in_order_and_may_be_quoted() -> None:
    schema = parse_ddl("id long not null, `two words` string,\n b: int")

    assert schema.names == ["id", "two words", "b"]
    assert not schema.field("id").nullable


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id", "found 'its end', expected more"),
        ("id lung", "found 'lung', expected a type"),
        ("id long name string", "found 'name', expected a comma or the end"),
        ("id long,", "found 'its end'"),
        ("1 long", "found '1', expected the name of a column"),
        ("id array<int", "found 'its end'"),
        ("id decimal(a)", "found 'a', expected a number"),
        ("id long; drop", "found '; drop'"),
        ("id long, id int", "column 'id' is there twice"),
        ("", "found 'its end'"),
    ],
)
def test_what_is_not_understood_is_named(text: str, said: str) -> None:
    with pytest.raises(TableMisdeclared) as caught:
        parse_ddl(text)

    assert said in str(caught.value)
