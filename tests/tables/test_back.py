"""A table's rows back into a topic."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from everlog.tables import steps
from everlog.tables.arrow import pa
from everlog.tables.back import Sent, records_of, send_back
from everlog.tables.errors import TableMisdeclared
from everlog.tables.spec import FORMATS, TableSpec
from everlog.tables.table import open_table
from tests.tables.builders import a_spec, order, orders, read_all, records


@pytest.mark.parametrize("format_", FORMATS)
def test_rows_go_out_once_and_later_those_that_are_new(
    tmp_path: Path, everlog_bootstrap: str, new_topic: Callable[..., str], format_: str
) -> None:
    topic = new_topic(2)
    spec = TableSpec.load(
        {**a_spec(tmp_path, name=f"o-{topic}", bootstrap=everlog_bootstrap).to_dict(), "format": format_}
    )
    table = open_table(spec)
    table.commit("q", 0, [table.stage([orders(range(7))])])
    told: list[Sent] = []

    first = send_back(spec, topic, key=["id"], batch_rows=3, on_progress=told.append)
    assert (first.rows, first.is_done, len(told)) == (7, True, 4)
    assert send_back(spec, topic, key=["id"]).rows == 0
    table.commit("q", 1, [table.stage([orders(range(7, 9))])])
    table.compact()
    assert send_back(spec, topic, key=["id"]).rows == 2

    found = read_all(everlog_bootstrap, topic)
    assert sorted(int(record.key) for record in found) == list(range(9))
    assert {int(record.key): json.loads(record.value) for record in found}[3] == {"id": 3, "item": "pizza"}
    assert send_back(spec, topic, key=["id"], group=f"again-{topic}").rows == 9


def test_what_changed_in_an_upsert_table_goes_out_and_what_left_it_is_not_told(
    tmp_path: Path, everlog_bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    spec = a_spec(tmp_path, name=f"o-{topic}", bootstrap=everlog_bootstrap, mode="upsert")
    table = open_table(spec)
    table.commit("q", 0, [table.stage([records([(0, b"a", order(1)), (1, b"b", order(2))])])])
    assert send_back(spec, topic).rows == 2

    table.commit("q", 1, [table.stage([records([(2, b"a", order(3)), (3, b"b", None)])])])
    assert send_back(spec, topic).rows == 1

    found = [(record.key, json.loads(record.value)["id"]) for record in read_all(everlog_bootstrap, topic)]
    assert found == [(b"a", 1), (b"b", 2), (b"a", 3)]


def test_rows_that_name_no_offset_go_again_with_each_commit(
    tmp_path: Path, everlog_bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    spec = a_spec(tmp_path, name=f"o-{topic}", bootstrap=everlog_bootstrap)
    table = open_table(spec)
    sent: list[int] = []
    for number in range(2):
        rows = pa.RecordBatch.from_pylist([{"id": number, "item": "sum"}], schema=table.spec.columns)
        table.commit("q", number, [table.write_files([rows])])
        sent.append(send_back(spec, topic, key=["id"]).rows)
        assert send_back(spec, topic, key=["id"]).rows == 0

    assert sent == [1, 2]


def test_what_was_begun_is_gone_on_with_in_pieces_of_any_size(
    tmp_path: Path, everlog_bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    spec = a_spec(tmp_path, name=f"o-{topic}", bootstrap=everlog_bootstrap)
    table = open_table(spec)
    table.commit("q", 0, [table.stage([orders(range(20))])])

    class Died(BaseException):
        pass

    def send_and_die(batch_rows: int, transactions: int) -> None:
        left = [transactions]

        def die(step: str) -> None:
            left[0] -= step == "back-committed"
            if not left[0]:
                raise Died

        steps.observer = die
        try:
            with pytest.raises(Died):
                send_back(spec, topic, key=["id"], batch_rows=batch_rows)
        finally:
            steps.observer = None

    send_and_die(batch_rows=7, transactions=2)
    send_and_die(batch_rows=4, transactions=1)
    assert send_back(spec, topic, key=["id"], batch_rows=5).rows == 4

    assert sorted(int(record.key) for record in read_all(everlog_bootstrap, topic)) == list(range(20))


def test_keys_are_the_records_own_one_column_or_several(tmp_path: Path) -> None:
    table = open_table(a_spec(tmp_path))
    table.commit("q", 0, [table.stage([records([(0, b"own", order(5, "tea"))])])])
    rows = table.read()

    assert records_of(rows)["key"].to_pylist() == [b"own"]
    assert records_of(rows, ["id"])["key"].to_pylist() == [b"5"]
    assert json.loads(records_of(rows, ["id", "item"])["key"].to_pylist()[0]) == {"id": 5, "item": "tea"}
    assert json.loads(records_of(rows)["value"].to_pylist()[0]) == {"id": 5, "item": "tea"}


def test_what_is_wrong_is_named(tmp_path: Path, everlog_bootstrap: str) -> None:
    spec = a_spec(tmp_path, bootstrap=everlog_bootstrap)
    open_table(spec)

    with pytest.raises(TableMisdeclared, match="key column 'no' is not in the table"):
        send_back(spec, "t", key=["no"])
    with pytest.raises(TableMisdeclared, match="bootstrap is missing"):
        send_back(replace(spec, bootstrap=None), "t")
