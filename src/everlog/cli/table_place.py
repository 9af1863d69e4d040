"""How commands find tables: what they are called, and where they are declared."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from everlog.cli.connect import check_reachable, client_settings
from everlog.cli.options import DEFAULT_BOOTSTRAP
from everlog.model.errors import EverlogError
from everlog.tables.declared import declared_table, declared_tables
from everlog.tables.spec import TableSpec

Function = TypeVar("Function", bound=Callable[..., Any])

PATIENCE_SECONDS = 1.0


def find_spec(bootstrap: str, timeout: float, name: str) -> TableSpec:
    """The declaration of a table; fails at once if there is no cluster."""
    check_reachable(bootstrap, timeout)
    return declared_table(bootstrap, name, client=client_settings(timeout))


def all_specs(bootstrap: str, timeout: float) -> list[TableSpec]:
    """All declarations, by name; fails at once if there is no cluster."""
    check_reachable(bootstrap, timeout)
    return declared_tables(bootstrap, client=client_settings(timeout))


def complete_tables(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of declared tables that begin so; nothing, quickly, if the cluster does not answer."""
    bootstrap = ctx.params.get("bootstrap") or os.environ.get("EVERLOG_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    try:
        with ctx.scope(cleanup=False):
            specs = all_specs(bootstrap, PATIENCE_SECONDS)
    except EverlogError:
        return []
    return [CompletionItem(spec.name, help=spec.topic) for spec in specs if spec.name.startswith(incomplete)]


def table_argument(function: Function) -> Function:
    """Add the argument TABLE, which arrives as `name`."""
    return click.argument("name", metavar="TABLE", shell_complete=complete_tables)(function)
