"""Options of the format `everlog_table`: what they describe, and what is refused by name."""

from dataclasses import dataclass

import pytest

from everlog.model.errors import EverlogError
from everlog.spark.table.options import TableOptions, are_records, read_options, spec_for_rows
from everlog.tables.spec import TableSpec


@dataclass
class Kind:
    text: str

    def simpleString(self) -> str:
        return self.text


@dataclass
class Column:
    name: str
    dataType: Kind


def columns(**kinds: str) -> list[Column]:
    return [Column(name, Kind(text)) for name, text in kinds.items()]


RECORDS = columns(
    key="binary", value="binary", topic="string", partition="int", offset="bigint", timestamp="timestamp"
)


def test_a_path_is_enough_for_a_table_of_rows() -> None:
    spec = spec_for_rows(read_options({"path": "/lake/totals/"}), columns(id="bigint", tags="array<string>"))

    assert (spec.name, spec.topic, spec.location) == ("totals", "totals", "/lake/totals/")
    assert (spec.format, spec.mode) == ("parquet", "append")
    assert spec.columns.names == ["id", "tags"]
    assert not are_records(spec, columns(id="bigint", tags="array<string>"))


def test_options_describe_a_table_of_records() -> None:
    options = read_options(
        {
            "location": "/lake/o",
            "name": "orders",
            "topic": "shop.orders",
            "tableFormat": "Iceberg",
            "mode": "upsert",
            "keys": "id, shop",
            "valueFormat": "json",
            "valueSchema": "id long, shop string",
            "partitionBy": "shop",
            "deadLetterTopic": "orders.dlq",
            "kafka.bootstrap.servers": "b:9092",
            "table.iceberg.catalog.uri": "sqlite:///x.db",
            "value.timezone": "UTC",
        }
    )

    spec = spec_for_rows(options, RECORDS)

    assert spec == TableSpec(
        name="orders",
        topic="shop.orders",
        location="/lake/o",
        format="iceberg",
        mode="upsert",
        value_format="json",
        schema="id long, shop string",
        key=("id", "shop"),
        partition_by=("shop",),
        dead_letter_topic="orders.dlq",
        bootstrap="b:9092",
        properties={"iceberg.catalog.uri": "sqlite:///x.db", "value.timezone": "UTC"},
    )
    assert are_records(spec, RECORDS)


def test_records_without_a_format_keep_their_value_as_it_is() -> None:
    spec = spec_for_rows(read_options({"path": "/lake/raw"}), RECORDS)

    assert spec.columns.names == ["value"]
    assert are_records(spec, RECORDS)


def test_rows_with_columns_of_the_table_are_no_records() -> None:
    spec = TableSpec(name="t", topic="t", location="/t", schema="id long, value string")

    assert not are_records(spec, columns(id="bigint", value="string"))
    assert not are_records(spec, columns(id="bigint"))
    assert are_records(spec, RECORDS)


def test_a_column_of_the_value_may_be_called_as_one_of_the_record() -> None:
    spec = TableSpec(name="t", topic="t", location="/t", schema="id long, key long, timestamp long")

    assert are_records(spec, RECORDS)
    assert not are_records(spec, columns(id="bigint", key="bigint", timestamp="bigint"))
    assert not are_records(spec, columns(key="bigint", value="binary"))


def test_a_declared_table_is_known_by_its_name_alone() -> None:
    found = read_options({"table": "orders", "checkpointlocation": "/c", "kafka.bootstrap.servers": "b:1"})

    assert found == TableOptions("orders", "b:1", {}, {}, None, None, "/c")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "which table?"),
        ({"path": "/a", "location": "/b"}, "path and location"),
        ({"table": "orders", "path": "/a", "kafka.bootstrap.servers": "b:1"}, "table='orders' and path"),
        ({"table": "orders"}, "needs kafka.bootstrap.servers"),
        ({"path": "/a", "tableFormat": "orc"}, "tableFormat='orc': expected one of parquet, iceberg, delta"),
        ({"path": "/a", "mode": "merge"}, "mode='merge': expected one of append, upsert"),
        ({"path": "/a", "debezium": "yes"}, "debezium='yes': expected true or false"),
        ({"path": "/a", "batchId": "3"}, "batchId='3'"),
        ({"path": "/a", "batchId": "x", "writer": "w"}, "batchId='x'"),
        ({"path": "/a b"}, "expected the option name"),
        ({"path": "/a", "tableFromat": "delta"}, "did you mean tableFormat?"),
        ({"path": "/a", "keys": "id"}, "the mode is append"),
    ],
)
def test_what_will_not_do_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(EverlogError, match=said.replace("?", r"\?")):
        spec_for_rows(read_options(given), columns(id="bigint"))
