"""The schema of a read, as the text that Spark parses."""

import re

import pytest

from everlog.model.errors import ConfigError
from everlog.spark.source.options import read_options
from everlog.spark.source.record_schema import ddl_names, read_schema


def schema(**options: str) -> str:
    given = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders", **options}
    return read_schema(read_options(given, streaming=None))


PLAIN = (
    "`key` BINARY, `value` BINARY, `topic` STRING NOT NULL, `partition` INT NOT NULL, "
    "`offset` BIGINT NOT NULL, `timestamp` TIMESTAMP, `timestampType` INT NOT NULL"
)


def test_columns_are_those_of_the_other_connector() -> None:
    assert schema() == PLAIN
    assert schema(includeHeaders="true") == PLAIN + ", `headers` ARRAY<STRUCT<key: STRING, value: BINARY>>"


def test_columns_can_be_chosen() -> None:
    assert schema(columns="value, OFFSET") == "`value` BINARY, `offset` BIGINT NOT NULL"
    with pytest.raises(ConfigError, match="unknown column 'valu'"):
        schema(columns="valu")
    with pytest.raises(ConfigError, match="names a column twice"):
        schema(columns="value,value")


def test_fields_of_the_value_stand_beside_the_records_columns() -> None:
    made = schema(valueFormat="json", valueSchema="id BIGINT, name STRING", columns="key,offset")
    assert made == (
        "`key` BINARY, `offset` BIGINT NOT NULL, id BIGINT, name STRING, "
        "`_corrupt_record` BINARY, `_corrupt_reason` STRING"
    )


def test_or_in_one_column() -> None:
    made = schema(valueFormat="json", valueSchema="timestamp TIMESTAMP", valueColumns="struct")
    assert "`value` STRUCT<timestamp TIMESTAMP>" in made


def test_a_field_that_the_record_has_too_is_refused_unless_that_is_left_out() -> None:
    with pytest.raises(ConfigError, match="has a field 'Timestamp', and so has the record"):
        schema(valueFormat="json", valueSchema="Timestamp STRING")
    assert "timestamp STRING" in schema(valueFormat="json", valueSchema="timestamp STRING", columns="key")


def test_strings_need_no_schema_and_others_do() -> None:
    assert "`value` STRING" in schema(valueFormat="string")
    assert "`value` BIGINT" in schema(valueFormat="long")
    with pytest.raises(ConfigError, match="valueFormat=json needs the option valueSchema"):
        schema(valueFormat="json")


def test_an_avro_schema_names_the_columns() -> None:
    fields = '[{"name": "id", "type": "long"}, {"name": "at", "type": ["null", "string"]}]'
    written = f'{{"type": "record", "name": "r", "fields": {fields}}}'
    made = schema(valueFormat="avro", columns="key", **{"value.avroSchema": written})
    assert made.startswith("`key` BINARY, `id` bigint, `at` string, ")
    with pytest.raises(ConfigError, match="option valueFormat=avro: avroSchema is "):
        schema(valueFormat="avro", **{"value.avroSchema": "{"})


def test_a_schema_may_be_sparks_json() -> None:
    text = '{"type":"struct","fields":[{"name":"a b","type":"integer","nullable":true,"metadata":{}}]}'
    assert "`a b` int" in schema(valueFormat="json", valueSchema=text)
    with pytest.raises(ConfigError, match="not a schema in Spark's JSON"):
        schema(valueFormat="json", valueSchema='{"a": 1}')


def test_names_are_found_within_ddl() -> None:
    assert ddl_names("a INT, `b,c` STRUCT<x: INT, y: DECIMAL(3,2)>, d MAP<STRING, INT> COMMENT 'x, y'") == [
        "a",
        "b,c",
        "d",
    ]
    with pytest.raises(ConfigError, match="expected DDL such as"):
        ddl_names("a INT,")


@pytest.mark.parametrize("columns", ["spread", "struct"])
@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("a INT, id BIGINTT", "field 'id' is of type 'BIGINTT', which Spark has not: did you mean BIGINT?"),
        ("`my id`: text", "field 'my id' is of type 'text', which Spark has not: "),
        ("id", "field 'id' has no type: expected one such as BIGINT or STRING"),
    ],
)
def test_a_type_that_is_none_is_named(ddl: str, says: str, columns: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        schema(valueFormat="json", valueSchema=ddl, valueColumns=columns)
