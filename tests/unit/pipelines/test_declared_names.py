"""What files declare, by name, and names that nobody has declared."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.pipelines.output import MaterializedView, Sink, StreamingTable

from everlog.model.errors import ConfigError
from everlog.pipelines.declared_names import DeclaredNames, check_refresh, sql_names


class Passed:
    """A registry that keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[str] = []

    def register_output(self, output: Any) -> None:
        self.got.append(f"output {output.name}")

    def register_flow(self, flow: Any) -> None:
        self.got.append(f"flow {flow.name}")

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        self.got.append(f"sql {file_path}")

    def register_auto_cdc_flow(self, flow: Any) -> None:
        self.got.append(f"cdc {flow.name}")


def declared() -> tuple[DeclaredNames, Passed]:
    passed = Passed()
    names = DeclaredNames(passed)
    # Only their types and names are looked at, and some of their fields come from Spark.
    for kind, name in ((StreamingTable, "orders"), (Sink, "large_orders"), (MaterializedView, "best")):
        output: Any = object.__new__(kind)
        object.__setattr__(output, "name", name)
        names.register_output(output)
    for name in ("orders", "large", "best"):
        names.register_flow(SimpleNamespace(name=name))
    names.register_sql("CREATE MATERIALIZED VIEW revenue AS SELECT 1", Path("revenue.sql"))
    return names, passed


def test_what_is_declared_goes_on_to_spark_and_its_names_are_kept() -> None:
    names, passed = declared()
    names.register_auto_cdc_flow(SimpleNamespace(name="changes"))

    assert names.tables == ["orders", "best", "revenue"]
    assert names.flows == ["orders", "large", "best", "revenue"]
    assert passed.got == [
        "output orders", "output large_orders", "output best",
        "flow orders", "flow large", "flow best", "sql revenue.sql", "cdc changes",
    ]  # fmt: skip


def test_names_in_sql_are_found() -> None:
    text = """
    -- CREATE MATERIALIZED VIEW not_this AS SELECT 1;
    CREATE MATERIALIZED VIEW revenue AS SELECT customer FROM orders;
    create or refresh streaming table `lake`.`copies`
      AS SELECT * FROM STREAM orders;
    CREATE STREAMING TABLE fed;
    /* CREATE FLOW nor_this AS INSERT INTO fed */
    CREATE FLOW feeding AS INSERT INTO fed BY NAME SELECT * FROM STREAM orders;
    """
    assert sql_names(text) == (["revenue", "lake.copies", "fed"], ["revenue", "lake.copies", "feeding"])


def test_only_tables_can_be_refreshed() -> None:
    names, _ = declared()

    check_refresh(["orders", "spark_catalog.default.revenue"], names)
    for name, says in (
        (
            "large",
            "flow 'large' cannot be refreshed by itself: Spark does that with tables only, which are best",
        ),
        (
            "ordres",
            "there is no table or stream 'ordres' to refresh: expected a stream of streams/, or a table:",
        ),
        ("large_orders", "there is no table or stream 'large_orders' to refresh: "),
    ):
        with pytest.raises(ConfigError, match=re.escape(says)):
            check_refresh(["orders", name], names)
