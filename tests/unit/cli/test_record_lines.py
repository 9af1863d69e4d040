"""Records from lines, and records as JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.cli.record_lines import LineRecord, read_json_record, record_shape, text_reader
from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition
from everlog.records.reader import Record


def test_a_line_is_a_value_unless_there_is_a_separator() -> None:
    assert text_reader(None, empty_is_null=False)(b"a:b:c", 1) == LineRecord(None, b"a:b:c")
    assert text_reader(b":", empty_is_null=False)(b"a:b:c", 1) == LineRecord(b"a", b"b:c")


def test_an_empty_value_is_a_tombstone_only_where_asked() -> None:
    assert text_reader(b":", empty_is_null=False)(b"a:", 1) == LineRecord(b"a", b"")
    assert text_reader(b":", empty_is_null=True)(b"a:", 1) == LineRecord(b"a", None)


def test_a_line_without_the_separator_is_named_by_its_number() -> None:
    with pytest.raises(ConfigError, match="line 7 has no key: expected '=>'"):
        text_reader(b"=>", empty_is_null=False)(b"a:b", 7)


def test_headers_may_be_a_list_or_an_object() -> None:
    expected = (("a", b"1"), ("b", None))

    assert read_json_record(b'{"headers": {"a": "1", "b": null}}', 1).headers == expected
    listed = b'{"headers": [{"key": "a", "value": "1"}, {"key": "b", "value": null}]}'
    assert read_json_record(listed, 1).headers == expected


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[1]",
        b'"text"',
        b'{"value": 5}',
        b'{"value": {"base64": "?"}}',
        b'{"value": {"base64": "YQ==", "more": 1}}',
        b'{"partition": "0"}',
        b'{"timestamp": true}',
        b'{"headers": 3}',
        b'{"headers": [{"key": "a"}]}',
        b"\xff",
    ],
)
def test_a_line_that_is_no_record_is_refused_with_its_number(line: bytes) -> None:
    with pytest.raises(ConfigError, match="line 3 is not a record"):
        read_json_record(line, 3)


field = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.text(max_size=5), field), max_size=3).map(tuple)


@given(st.integers(0, 99), st.integers(-1, 2**62), field, field, headers)
def test_what_consume_writes_produce_reads_back(
    partition: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    its_headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    record = Record(5, timestamp, key, value, its_headers)

    line = json.dumps(record_shape(TopicPartition("t", partition), record)).encode()

    assert read_json_record(line, 1) == LineRecord(key, value, its_headers, partition, timestamp)
