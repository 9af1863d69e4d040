"""Tables to a real broker, read back with another client (P1, P2, P5).

pyarrow, pandas, Polars and DuckDB have no types, or too many: they are `Any` here.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Literal, get_args

import pytest

import everlog.aio
from everlog import ConfigError, ErrorCode, Producer, Refused, Unsendable, UnsendableType
from everlog.client.core.producer.partitioner import partition_of_key
from tests.client.conftest import NewTopic
from tests.client.log_reading import Stored, read_log

pa: Any = import_module("pyarrow")
pandas: Any = import_module("pandas")
polars: Any = import_module("polars")
duckdb: Any = import_module("duckdb")

PATIENCE_S = 60.0
NOON = 1_700_000_000_000
Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: tuple[Codec, ...] = get_args(Codec)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def send(bootstrap: str, topic: str, table: Any, **options: Any) -> list[Any]:
    columns = options.pop("columns", None)
    with Producer(bootstrap, **options) as producer:
        return producer.send_arrow(topic, table, columns=columns).result(PATIENCE_S)


def key_values(stored: list[Stored]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in stored]


def test_p1_rows_become_records_with_all_their_fields(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2, retention_ms="-1")
    table = pa.table(
        {
            "key": pa.array([b"a", None, b"", b"d"], pa.binary()),
            "value": pa.array(["one", None, "", "vier€"], pa.string()),
            "headers": pa.array([[("x", b"1"), ("x", None)], None, [], [("ä", b"")]], HEADERS),
            "timestamp": pa.array([NOON, NOON + 1, NOON + 2, NOON - 3], pa.timestamp("ms", tz="UTC")),
            "partition": pa.array([1, 1, 0, 1], pa.int64()),
        }
    )

    batches = send(bootstrap, topic, table)
    assert sorted((batch.partition, batch.base_offset, batch.record_count) for batch in batches) == [
        (0, 0, 1),
        (1, 0, 3),
    ]
    assert read_log(bootstrap, topic) == [
        (0, 0, b"", b"", (), NOON + 2, 0),
        (1, 0, b"a", b"one", (("x", b"1"), ("x", None)), NOON, 0),
        (1, 1, None, None, (), NOON + 1, 0),
        (1, 2, b"d", "vier€".encode(), (("ä", b""),), NOON - 3, 0),
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_p1_keys_choose_partitions_as_they_do_for_single_records(
    bootstrap: str, new_topic: NewTopic, codec: Codec
) -> None:
    topic = new_topic(3)
    keys = [b"key-%d" % (i % 500) for i in range(5_000)]
    table = pa.table({"key": keys, "value": [b"%d" % i for i in range(5_000)]})

    send(bootstrap, topic, table, compression_type=codec)
    stored = read_log(bootstrap, topic)
    expected: dict[int, list[tuple[bytes, bytes]]] = {0: [], 1: [], 2: []}
    for i, key in enumerate(keys):
        expected[partition_of_key(key, 3)].append((key, b"%d" % i))
    for partition, rows in expected.items():
        assert key_values([record for record in stored if record.partition == partition]) == rows


def test_p1_rows_without_a_key_fill_a_partition_before_they_go_to_the_next(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    values = [b"%05d" % i + b"x" * 95 for i in range(3_000)]
    batches = send(bootstrap, topic, pa.table({"value": values}), max_request_size=100_000)

    assert {batch.partition for batch in batches} == {0, 1, 2}
    assert all(batch.record_count > 500 for batch in batches[1:-1])
    stored = read_log(bootstrap, topic)
    assert sorted(record.value or b"" for record in stored) == values
    for partition in range(3):
        own = [record.value or b"" for record in stored if record.partition == partition]
        assert own == sorted(own)


def test_p1_small_tables_without_keys_stay_together(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(5)
    with Producer(bootstrap) as producer:
        sent = [producer.send_arrow(topic, pa.table({"value": [b"x", b"y"]})) for _ in range(4)]
        used = {batch.partition for delivery in sent for batch in delivery.result(PATIENCE_S)}

    assert len(used) == 1


def test_p1_round_robin_and_ignored_keys_do_not_look_at_keys(bootstrap: str, new_topic: NewTopic) -> None:
    table = pa.table({"key": [b"same"] * 1_000, "value": [b"x" * 100] * 1_000})
    for options in ({"partitioner": "round_robin"}, {"partitioner_ignore_keys": True}):
        topic = new_topic(2)
        batches = send(bootstrap, topic, table, max_request_size=30_000, **options)
        assert {batch.partition for batch in batches} == {0, 1}


VALUE_TYPES = {
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "binary_view": pa.binary_view(),
    "fixed": pa.binary(5),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
}


@pytest.mark.parametrize("name", VALUE_TYPES)
def test_p1_every_type_of_bytes_will_do_whole_and_in_slices(
    bootstrap: str, new_topic: NewTopic, name: str
) -> None:
    topic = new_topic()
    words = [None if i % 7 == 3 else f"{i:05}" for i in range(100)]
    array = pa.array(words, pa.binary() if name == "fixed" else pa.string()).cast(VALUE_TYPES[name])
    chunked = pa.chunked_array([array.slice(3, 5), array.slice(8, 0), array.slice(8, 60), array.slice(68)])
    table = pa.table({"value": chunked, "key": chunked}).slice(2)

    send(bootstrap, topic, table)
    expected = [None if word is None else word.encode() for word in words[5:]]
    assert key_values(read_log(bootstrap, topic)) == [(word, word) for word in expected]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "int64", "date32", "int16"])
def test_p1_timestamps_of_any_unit_become_milliseconds(
    bootstrap: str, new_topic: NewTopic, unit: str
) -> None:
    topic = new_topic(retention_ms="-1")
    kind: Any = {"int64": pa.int64(), "int16": pa.int16(), "date32": pa.date32()}.get(unit)
    moments = {"int16": [7, None, 9], "date32": [20_000, None, 20_001]}.get(unit, [NOON, None, NOON + 2_000])
    if kind is None:
        kind = pa.timestamp(unit, tz="Europe/Vienna")
    array = pa.array(moments, pa.timestamp("ms") if "t" not in unit else kind).cast(kind)
    send(bootstrap, topic, pa.table({"value": [b"a", b"b", b"c"], "timestamp": array}))

    scale = 86_400_000 if unit == "date32" else 1
    found = [record.timestamp for record in read_log(bootstrap, topic)]
    assert (found[0], found[2]) == ((moments[0] or 0) * scale, (moments[2] or 0) * scale)
    assert found[1] > NOON + 2_000, "a row without a timestamp is of now"


@pytest.mark.parametrize(
    "kind",
    [
        HEADERS,
        pa.large_list(pa.struct([("name", pa.large_string()), ("value", pa.string())])),
        pa.list_(pa.struct([("value", pa.binary_view()), ("key", pa.string_view())])),
        pa.map_(pa.string(), pa.binary()),
    ],
    ids=str,
)
def test_p1_headers_come_as_lists_of_pairs_or_as_maps(bootstrap: str, new_topic: NewTopic, kind: Any) -> None:
    topic = new_topic()
    rows: list[list[tuple[str, bytes | None]] | None] = [
        [("a", b"1")],
        [],
        None,
        [("b", b"2"), ("c", None)],
        [("d", b"4")],
    ]
    if pa.types.is_map(kind):
        array = pa.array(rows, kind)
    else:
        names = [kind.value_type.field(i).name for i in range(2)]
        turned = names[0] == "value"
        pairs = [
            None
            if row is None
            else [dict(zip(names, pair[::-1] if turned else pair, strict=True)) for pair in row]
            for row in rows
        ]
        array = pa.array(pairs, kind)
    table = pa.table({"value": [b"x"] * 5, "headers": array}).slice(1)

    send(bootstrap, topic, table)
    assert [list(record.headers) for record in read_log(bootstrap, topic)] == [row or [] for row in rows[1:]]


def test_p1_frames_of_pandas_polars_and_duckdb_can_be_sent(bootstrap: str, new_topic: NewTopic) -> None:
    expected = [(b"a", b"one"), (None, b"two"), (b"c", b"three")]
    frame = pandas.DataFrame({"key": ["a", None, "c"], "value": ["one", "two", "three"]}, index=[7, 8, 9])
    relation = duckdb.sql(
        "select * from (values (1, 'a', 'one'), (2, null, 'two'), (3, 'c', 'three')) t(n, key, value) "
        "order by n"
    )
    for table in (
        frame,
        polars.DataFrame({"key": ["a", None, "c"], "value": ["one", "two", "three"]}),
        polars.LazyFrame({"key": ["a", None, "c"], "value": ["one", "two", "three"]}).collect(),
        relation.project("key, value"),
        pa.Table.from_pandas(frame).to_batches()[0],
        pa.Table.from_pandas(frame).to_reader(),
    ):
        topic = new_topic()
        send(bootstrap, topic, table)
        assert key_values(read_log(bootstrap, topic)) == expected, type(table)


def test_p1_columns_of_other_names_can_be_chosen(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    table = pa.table({"id": ["a"], "body": ["x"], "value": [b"not this"], "more": [1]})
    send(bootstrap, topic, table, columns={"key": "id", "value": "body"})

    assert key_values(read_log(bootstrap, topic)) == [(b"a", b"x")]


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "no value": ({"key": [b"k"]}, Unsendable, "column 'value' is missing: the table has 'key'"),
    "a number": (
        {"value": [1]},
        UnsendableType,
        "column 'value' is of type int64: expected binary or string",
    ),
    "a column too many": (
        {"value": ["x"], "price": [1]},
        Unsendable,
        "column 'price' of type int64 would be lost",
    ),
    "time as text": (
        {"value": ["x"], "timestamp": ["now"]},
        UnsendableType,
        "column 'timestamp' is of type string: expected timestamp",
    ),
    "before 1970": (
        {"value": ["x"], "timestamp": [-5]},
        Unsendable,
        "column 'timestamp': a timestamp is -5 ms",
    ),
    "headers as text": (
        {"value": ["x"], "headers": ["h"]},
        UnsendableType,
        "column 'headers' is of type string: expected list<struct",
    ),
    "headers of numbers": (
        {"value": ["x"], "headers": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))},
        UnsendableType,
        "column 'headers' is of type map<string, int64",
    ),
    "partition as text": (
        {"value": ["x"], "partition": ["0"]},
        UnsendableType,
        "column 'partition' is of type string: expected an integer",
    ),
    "no such partition": (
        {"value": ["x", "y"], "partition": [0, 9]},
        Unsendable,
        "row 1: partition 9, expected 0 to 0",
    ),
    "partition of 40 bits": (
        {"value": ["x"], "partition": [1 << 40]},
        Unsendable,
        "column 'partition' of type int64",
    ),
    "a header without a name": (
        {"value": ["x"], "headers": pa.array([[(None, b"")]], HEADERS)},
        Unsendable,
        "row 0: a header has no name",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_p1_a_table_that_will_not_do_is_refused_by_name(
    bootstrap: str, new_topic: NewTopic, name: str
) -> None:
    columns, error, words = WRONG[name]
    with Producer(bootstrap) as producer, pytest.raises(error) as refused:
        producer.send_arrow(new_topic(), pa.table(columns))
    assert words in str(refused.value)
    assert isinstance(refused.value, TypeError if error is UnsendableType else ValueError)


def test_p1_a_wrong_partition_is_the_same_error_from_a_row_as_from_a_record(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        with pytest.raises(Refused) as of_a_record:
            producer.send(topic, b"x", partition=9)
        with pytest.raises(Refused) as of_a_row:
            producer.send_arrow(topic, pa.table({"value": ["x"], "partition": [9]}))
    assert of_a_row.value.code is of_a_record.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert of_a_row.value.retriable is of_a_record.value.retriable
    assert topic in str(of_a_row.value)


def test_p1_an_error_of_who_makes_the_rows_comes_out_as_it_is(bootstrap: str, new_topic: NewTopic) -> None:
    schema = pa.schema({"value": pa.string()})

    def rows() -> Iterator[Any]:
        yield pa.record_batch({"value": ["x"]}, schema)
        raise LookupError("a bug of the application")

    reader = pa.RecordBatchReader.from_batches(schema, rows())
    with Producer(bootstrap) as producer, pytest.raises(LookupError, match="a bug of the application"):
        producer.send_arrow(new_topic(), reader)


def test_p1_what_is_no_table_and_columns_that_are_not_there_are_refused(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    table = pa.table({"value": ["x"], "n": [1]})
    with Producer(bootstrap) as producer:
        with pytest.raises(UnsendableType, match=r"a table is expected.*found list"):
            producer.send_arrow(topic, [b"x"])
        with pytest.raises(
            Unsendable, match="column 'body' for value: found none, the table has 'value', 'n'"
        ):
            producer.send_arrow(topic, table, columns={"value": "body"})
        with pytest.raises(Unsendable, match="columns has 'offset': expected some of value, key"):
            producer.send_arrow(topic, table, columns={"offset": "n"})


def test_p1_a_row_larger_than_a_request_is_refused(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap, max_request_size=10_000) as producer:
        with pytest.raises(Refused, match=r"takes 10\d\d\d bytes: expected at most max_request_size, 10000"):
            producer.send_arrow(topic, pa.table({"value": [b"x" * 10_000]}))
        producer.send_arrow(topic, pa.table({"value": [b"x" * 9_900]})).result(PATIENCE_S)


def test_p1_a_partitioner_that_looks_at_records_needs_a_partition_column(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)

    def second(topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int]) -> int:
        return 1

    with Producer(bootstrap, partitioner=second) as producer:
        for table in (
            pa.table({"value": ["x"]}),
            pa.table({"value": ["x", "y"], "partition": [0, None]}),
        ):
            with pytest.raises(ConfigError, match="columns need a column 'partition'"):
                producer.send_arrow(topic, table)
        producer.send_arrow(topic, pa.table({"value": ["x"], "partition": [0]})).result(PATIENCE_S)


def test_p2_a_long_stream_of_rows_stays_within_buffer_memory(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    memory, rows = 400_000, 40_000
    with Producer(bootstrap, buffer_memory=memory, max_request_size=50_000) as producer:
        used: list[int] = []

        def stream() -> Iterator[Any]:
            for start in range(0, rows, 1_000):
                used.append(producer.metrics()["buffer_used_bytes"])
                yield pa.record_batch(
                    {"value": [b"%09d" % i + b"x" * 91 for i in range(start, start + 1_000)]}
                )

        reader = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), stream())
        batches = producer.send_arrow(topic, reader).result(PATIENCE_S)
        assert max(used) <= memory
    assert sum(batch.record_count for batch in batches) == rows
    assert sorted(int((record.value or b"")[:9]) for record in read_log(bootstrap, topic)) == list(
        range(rows)
    )


def test_p2_a_batch_that_the_topic_finds_too_large_is_split(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="20000")
    values = [b"%04d" % i + b"x" * 96 for i in range(1_000)]
    batches = send(bootstrap, topic, pa.table({"value": values}))

    assert len(batches) > 4
    assert sum(batch.record_count for batch in batches) == 1_000
    assert [record.value for record in read_log(bootstrap, topic)] == values


def test_p4_rows_and_single_records_keep_their_order(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap, linger_ms=1_000) as producer:
        for i in range(5):
            producer.send(topic, b"%d-single" % i)
            producer.send_arrow(topic, pa.table({"value": [f"{i}-table", f"{i}-table"]}))

    stored = [record.value for record in read_log(bootstrap, topic)]
    assert stored == [b"%d-%s" % (i, kind) for i in range(5) for kind in (b"single", b"table", b"table")]


def test_p5_rows_are_a_part_of_the_transaction(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send_arrow(topic, pa.table({"value": ["kept", "kept"]}))
        producer.begin_transaction()
        producer.send_arrow(topic, pa.table({"value": ["dropped"] * 3})).result(PATIENCE_S)
        producer.abort_transaction()
        with pytest.raises(Exception, match="transaction"):
            producer.send_arrow(topic, pa.table({"value": ["outside"]}))

    assert [record.value for record in read_log(bootstrap, topic)] == [b"kept", b"kept"]
    assert len(read_log(bootstrap, topic, committed=False)) == 5


def test_p1_the_asyncio_face_sends_tables_too(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)

    async def run() -> list[Any]:
        async with everlog.aio.Producer(
            bootstrap, buffer_memory=200_000, max_request_size=20_000
        ) as producer:
            table = pa.table({"key": [b"%d" % i for i in range(5_000)], "value": [b"x" * 100] * 5_000})
            delivery = await producer.send_arrow(topic, table)
            return await delivery

    batches = asyncio.run(run())
    assert sum(batch.record_count for batch in batches) == 5_000
    stored = read_log(bootstrap, topic)
    assert sorted(int(record.key or b"") for record in stored) == list(range(5_000))
    assert all(partition_of_key(record.key or b"", 2) == record.partition for record in stored)


def test_p1_an_empty_table_is_delivered_at_once(bootstrap: str, new_topic: NewTopic) -> None:
    assert send(bootstrap, new_topic(), pa.table({"value": pa.array([], pa.binary())})) == []


def test_without_pyarrow_columns_say_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from everlog.client.core.columns.columns import chunks_to_arrow\n"
        "chunks_to_arrow(())"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "columns need pyarrow: pip install everlog[arrow]" in ended.stderr
