"""What the files of declared flows declare, by name: Spark neither tells nor checks what it was asked for."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from everlog.model.errors import ConfigError

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_CREATED = re.compile(
    r"\bCREATE\s+(?:OR\s+REFRESH\s+)?(?P<kind>MATERIALIZED\s+VIEW|STREAMING\s+TABLE|FLOW)\s+"
    r"(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[\w.`]+)(?P<query>[^;]*?\bAS\b)?",
    re.IGNORECASE,
)
_TABLES = frozenset({"StreamingTable", "MaterializedView"})


class DeclaredNames:
    """Passes what files declare on to Spark's registry, and keeps the names of tables and flows."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry
        self.flows: list[str] = []
        self.tables: list[str] = []
        """What can be refreshed; sinks cannot."""

    def register_output(self, output: Any) -> None:
        """A table, a view or a sink of a Python file."""
        self._registry.register_output(output)
        if type(output).__name__ in _TABLES:
            self.tables.append(str(output.name))

    def register_flow(self, flow: Any) -> None:
        """What a function of a Python file makes."""
        self._registry.register_flow(flow)
        self.flows.append(str(flow.name))

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """All statements of a file of SQL."""
        self._registry.register_sql(sql_text, file_path)
        tables, flows = sql_names(sql_text)
        self.tables += tables
        self.flows += flows

    def __getattr__(self, name: str) -> Any:
        """Whatever else Spark's registry takes."""
        return getattr(self._registry, name)


def sql_names(text: str) -> tuple[list[str], list[str]]:
    """The tables and the flows that statements of SQL declare.

    A table without a query has no flow of its own: it is declared for the flows of others.
    """
    tables: list[str] = []
    flows: list[str] = []
    for found in _CREATED.finditer(_COMMENT.sub("", text)):
        name = found["name"].replace("`", "")
        if found["kind"].upper() != "FLOW":
            tables.append(name)
        if found["query"]:
            flows.append(name)
    return tables, flows


def check_refresh(asked: Iterable[str], declared: DeclaredNames) -> None:
    """ConfigError for a name that no table has: Spark would do nothing about it, and say that it is done."""
    known = {_last(table) for table in declared.tables}
    expected = ", ".join(sorted(known)) or "none, there are none"
    for name in asked:
        if _last(name) in known:
            continue
        if _last(name) in {_last(flow) for flow in declared.flows}:
            raise ConfigError(
                f"flow {name!r} cannot be refreshed by itself: Spark does that with tables only, which are "
                f"{expected}; without --refresh all of them run"
            )
        raise ConfigError(
            f"there is no table or stream {name!r} to refresh: expected a stream of streams/, or a table: "
            f"{expected}"
        )


def _last(name: str) -> str:
    return name.rpartition(".")[2]
