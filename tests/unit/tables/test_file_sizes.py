"""How rows are cut into files."""

from datetime import date

import pytest

from everlog.tables.arrow import pa
from everlog.tables.errors import TableMisdeclared
from everlog.tables.file_sizes import TARGET_BYTES, by_partition, cut, partition_text, target_bytes


def test_pieces_hold_all_rows_in_order_and_none_is_empty() -> None:
    tables = [pa.table({"x": list(range(n, n + 100))}) for n in range(0, 1000, 100)]

    pieces = list(cut([pa.table({"x": pa.array([], pa.int64())}), *tables], 2000))

    assert pa.concat_tables(pieces)["x"].to_pylist() == list(range(1000))
    assert all(piece.num_rows for piece in pieces)
    assert len(pieces) == 4


def test_a_large_table_is_cut_and_small_ones_are_joined() -> None:
    assert len(list(cut([pa.table({"x": list(range(1000))})], 2000))) == 4
    assert len(list(cut([pa.table({"x": [n]}) for n in range(100)], 2000))) == 1
    assert list(cut([], 2000)) == []


def test_rows_are_kept_apart_by_values_and_nulls() -> None:
    rows = pa.table({"a": ["x", "y", None, "x"], "b": [1, 1, None, 2], "n": [0, 1, 2, 3]})

    found = {tuple(values.values()): part["n"].to_pylist() for values, part in by_partition(rows, ("a", "b"))}

    assert found == {("x", 1): [0], ("y", 1): [1], (None, None): [2], ("x", 2): [3]}


def test_values_as_text() -> None:
    assert [partition_text(value) for value in (None, True, False, 7, "a b", date(2024, 2, 29))] == [
        None,
        "true",
        "false",
        "7",
        "a b",
        "2024-02-29",
    ]


def test_the_target_is_a_property() -> None:
    assert target_bytes({}) == TARGET_BYTES
    assert target_bytes({"file.target_bytes": "1000"}) == 1000
    with pytest.raises(TableMisdeclared, match=r"file\.target_bytes='big': expected a number of bytes"):
        target_bytes({"file.target_bytes": "big"})
