"""Declarations on a cluster."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from everlog.tables.declared import declare, declared_table, declared_tables, withdraw
from everlog.tables.errors import NoSuchTable, TableMisdeclared
from tests.tables.builders import a_spec


def test_a_table_is_declared_changed_and_withdrawn(
    tmp_path: Path, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    spec = a_spec(tmp_path, name=fresh_topic())
    with pytest.raises(NoSuchTable, match=f"table {spec.name} is not declared on {everlog_bootstrap}"):
        declared_table(everlog_bootstrap, spec.name)

    declare(everlog_bootstrap, spec)
    assert declared_table(everlog_bootstrap, spec.name) == replace(spec, bootstrap=everlog_bootstrap)
    with pytest.raises(TableMisdeclared, match="is declared already"):
        declare(everlog_bootstrap, spec)

    wider = replace(spec, schema="id long, item string, price double")
    declare(everlog_bootstrap, wider, overwrite=True)
    assert wider.schema in [each.schema for each in declared_tables(everlog_bootstrap)]

    assert withdraw(everlog_bootstrap, spec.name).schema == wider.schema
    assert spec.name not in [each.name for each in declared_tables(everlog_bootstrap)]
    with pytest.raises(NoSuchTable):
        withdraw(everlog_bootstrap, spec.name)


def test_a_declaration_whose_columns_will_not_do_is_refused(tmp_path: Path, everlog_bootstrap: str) -> None:
    with pytest.raises(TableMisdeclared, match="expected a type"):
        declare(everlog_bootstrap, a_spec(tmp_path, schema="id lung"))
