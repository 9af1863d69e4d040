"""What other programs find in a table: by pyiceberg and delta-rs, and by DuckDB in the files of the table."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import duckdb
import pytest

from everlog.tables.spec import TableSpec
from everlog.tables.table import Table, open_table
from tests.tables.builders import ids, order, orders, records, state

TEMPLATES = Path(__file__).resolve().parents[2] / "src" / "everlog" / "pipelines" / "templates"
_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def by_pyiceberg(spec: TableSpec) -> Any:
    """The table in the catalog beside it, as the guide names it."""
    lake = Path(spec.location).parent
    catalog = import_module("pyiceberg.catalog").load_catalog(
        "everlog", type="sql", uri=f"sqlite:///{lake}/catalog.db"
    )
    return catalog.load_table(f"everlog.{spec.name}").scan().to_arrow()


def by_delta_rs(spec: TableSpec) -> Any:
    return import_module("deltalake").DeltaTable(spec.location).to_pyarrow_table()


def by_duckdb(spec: TableSpec) -> Any:
    """The files that the table says it consists of, as any reader of Parquet takes them."""
    table = open_table(replace(spec, schema=""), create=False)
    return duckdb.read_parquet(table.files()).to_arrow_table()


READERS: dict[str, Callable[[TableSpec], Any]] = {
    "iceberg": by_pyiceberg,
    "delta": by_delta_rs,
    "parquet": by_duckdb,
}


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_another_reader_finds_the_rows_of_the_table_and_no_others(
    spec: TableSpec, mode: Literal["append", "upsert"]
) -> None:
    spec = replace(spec, mode=mode)
    table = open_table(spec)
    table.commit("q", 0, [table.stage([orders([0, 1, 2])])])
    table.commit("q", 1, [table.stage([orders([3])])])
    if mode == "upsert":
        changes = [(4, b"k0", order(4)), (5, b"k1", None)]
        table.commit("q", 2, [table.stage([records(changes)])])
    table.compact()
    # Of a writer that was killed, or has not come to its commit.
    table.stage([orders([6])])

    found = READERS[spec.format](spec)

    assert sorted(found["id"].to_pylist()) == ids(table)
    rows = dict(zip(found["_key"].to_pylist(), found["id"].to_pylist(), strict=True))
    assert rows == state(table)
    assert rows == ({b"k0": 4, b"k2": 2, b"k3": 3} if mode == "upsert" else {b"k%d" % n: n for n in range(4)})


def test_the_command_of_the_template_cdc_shows_the_current_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = _customers(tmp_path / "my-cdc" / "storage" / "lake" / "customers")
    for batch, (offset, customer, tier) in enumerate([(0, 1, "new"), (1, 2, "new"), (2, 1, "gold")]):
        after = {"id": customer, "name": "n", "email": "e", "tier": tier}
        _change(table, batch, offset, customer, {"before": None, "after": after, "op": "u"})
    _change(table, 3, 3, 2, {"before": {"id": 2}, "after": None, "op": "d"})

    (block,) = _BLOCK.finditer((TEMPLATES / "cdc" / "README.md").read_text())
    exec(compile(block["code"], "README.md", "exec"), {"__name__": "__main__"})

    assert capsys.readouterr().out.strip() == str([{"id": 1, "name": "n", "email": "e", "tier": "gold"}])


def _customers(place: Path) -> Table:
    return open_table(
        TableSpec(
            name="customers",
            topic="shop.public.customers",
            location=str(place),
            mode="upsert",
            debezium=True,
            key=("id",),
            schema="id long, name string, email string, tier string",
        )
    )


def _change(table: Table, batch: int, offset: int, key: int, value: dict[str, Any]) -> None:
    one = (offset, json.dumps({"id": key}).encode(), json.dumps(value).encode())
    table.commit("q", batch, [table.stage([records([one], topic=table.spec.topic)])])
