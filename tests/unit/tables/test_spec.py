"""Declarations of tables."""

import pickle
from typing import Any

import pytest

from everlog.tables.arrow import pa
from everlog.tables.errors import SchemaConflict, TableMisdeclared
from everlog.tables.schema import META, grown, table_schema
from everlog.tables.spec import TableSpec

GIVEN: dict[str, Any] = {
    "name": "orders",
    "topic": "orders",
    "location": "lake/orders",
    "format": "iceberg",
    "mode": "upsert",
    "schema": "id long, item string, day date",
    "key": ["id"],
    "partition_by": ["day"],
    "dead_letter_topic": "orders.dlq",
    "properties": {"iceberg.catalog.uri": 'sqlite:///a "b".db'},
}


@pytest.mark.parametrize("form", ["toml", "json"])
def test_a_declaration_is_read_as_it_was_written(form: Any) -> None:
    spec = TableSpec.load(GIVEN)

    assert TableSpec.parse(spec.dump(form)) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "orc"}, "format='orc': expected one of parquet, iceberg, delta"),
        ({"mode": "merge"}, "mode='merge': expected one of append, upsert"),
        ({"name": "a b"}, "name='a b'"),
        ({"topic": ""}, "topic=''"),
        ({"location": ""}, "location=''"),
        ({"tables": 1}, "tables=1: expected one of name"),
        ({"key": "id"}, "key='id': expected a list of columns"),
        ({"debezium": "yes"}, "debezium='yes': expected true or false"),
        ({"properties": {"a": 1}}, "expected names and strings"),
        ({"mode": "append"}, "key=['id']: expected none, as the mode is append"),
        ({"dead_letter_topic": "orders"}, "expected another topic than the table's own"),
        ({"debezium": True, "schema": ""}, "schema='': expected the columns of the source table"),
        ({"name": 3}, "name=3: expected a string"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(change: dict[str, Any], said: str) -> None:
    with pytest.raises(TableMisdeclared) as caught:
        TableSpec.load({**GIVEN, **change})

    assert said in str(caught.value)


def test_what_is_missing_and_what_cannot_be_read_is_said() -> None:
    with pytest.raises(TableMisdeclared, match="location is missing"):
        TableSpec.load({"name": "a", "topic": "a"})
    with pytest.raises(TableMisdeclared, match="cannot be read"):
        TableSpec.parse("name = ")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": ["no"]}, "key column 'no' is not in the schema"),
        ({"partition_by": ["no"]}, "partition column 'no' is not in the schema"),
        ({"partition_by": ["price"], "schema": "id long, price double"}, "of type double"),
        ({"schema": "id long, _offset long"}, "'_offset' is one of everlog's own"),
    ],
)
def test_columns_that_will_not_do_are_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(TableMisdeclared) as caught:
        table_schema(TableSpec.load({**GIVEN, "partition_by": [], **change}))

    assert said in str(caught.value)


def test_without_a_schema_the_value_is_one_column() -> None:
    spec = TableSpec(name="a", topic="a", location="a")

    assert table_schema(spec).names == ["value", *META.names]
    assert spec.columns.field("value").type == pa.binary()


def test_a_schema_grows_by_new_columns_and_keeps_those_it_lost() -> None:
    found = pa.schema([("id", pa.int64()), ("old", pa.string())])

    assert grown("t", found, pa.schema([("id", pa.int64())])) is None
    wanted = grown("t", found, pa.schema([("id", pa.int64()), ("new", pa.float64())]))
    assert wanted is not None
    assert wanted.names == ["id", "old", "new"]


def test_a_column_keeps_its_type() -> None:
    found = pa.schema([("id", pa.int64())])

    with pytest.raises(SchemaConflict, match="column 'id' of table t is of type int64, declared as string"):
        grown("t", found, pa.schema([("id", pa.string())]))
    assert grown("t", pa.schema([("a", pa.large_string())]), pa.schema([("a", pa.string())])) is None
