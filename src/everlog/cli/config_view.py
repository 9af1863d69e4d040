"""`everlog config describe`, and how commands name what has settings."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Block, Line, Report, Table
from everlog.cli.shapes import error_shape
from everlog.client.core.admin.configs import ConfigResource, ConfigSource
from everlog.model.errors import Refused

Function = TypeVar("Function", bound=Callable[..., Any])

ALL_BROKERS = "all"

EXAMPLES = """
$ everlog config describe topic orders
$ everlog config describe topic orders --all
$ everlog config describe broker 1 --key log.retention.ms --docs
"""


def _complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return complete_topics(ctx, param, incomplete) if ctx.params.get("kind") == "topic" else []


def resource_arguments(function: Function) -> Function:
    """Add the arguments `topic NAME` or `broker ID`; they arrive as `kind` and `name`."""
    function = click.argument("name", metavar="NAME", shell_complete=_complete_name)(function)
    return click.argument("kind", type=click.Choice(["topic", "broker"]))(function)


def resource_of(kind: str, name: str) -> ConfigResource:
    """The resource that the arguments name; `broker all` is the default of all brokers."""
    if kind == "topic":
        return ConfigResource.topic(name)
    if name != ALL_BROKERS and not name.isdecimal():
        raise click.UsageError(f"broker {name!r} cannot be read: expected its id, or {ALL_BROKERS}")
    return ConfigResource.all_brokers() if name == ALL_BROKERS else ConfigResource.broker(int(name))


@command("describe", examples=EXAMPLES)
@resource_arguments
@click.option("--all", "everything", is_flag=True, help="Also settings that have their default value.")
@click.option("-k", "--key", "keys", multiple=True, metavar="KEY", help="Only this setting; repeatable.")
@click.option("--docs", is_flag=True, help="Say what each setting means.")
@bootstrap_option
def describe(
    *,
    kind: str,
    name: str,
    everything: bool,
    keys: tuple[str, ...],
    docs: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Show the settings of a topic or a broker, and where each value comes from.

    Without --all or --key only what differs from the default is shown.
    """
    resource = resource_of(kind, name)
    with open_admin(bootstrap, timeout) as admin:
        try:
            found = admin.describe_configs([resource], keys=list(keys) or None, documentation=docs)[resource]
        except Refused as error:
            nothing: dict[str, object] = {"kind": kind, "name": name, "configs": []}
            return Report({**nothing, "error": error_shape(error)}, errors=[str(error)])
    entries = [
        entry
        for entry in found.values()
        if everything or keys or entry.source not in (ConfigSource.DEFAULT, ConfigSource.UNKNOWN)
    ]
    missing = [key for key in keys if key not in {entry.name for entry in entries}]
    shapes = [
        {
            "name": entry.name,
            "value": entry.value,
            "source": entry.source.name.lower(),
            "read_only": entry.is_read_only,
            "sensitive": entry.is_sensitive,
            "documentation": entry.documentation,
        }
        for entry in entries
    ]
    rows = [
        (
            entry.name,
            "(hidden)" if entry.is_sensitive else entry.value,
            entry.source.name.lower().replace("_", " "),
        )
        for entry in entries
    ]
    blocks: list[Block] = [Table(("SETTING", "VALUE", "SOURCE"), rows)] if rows else [Line("nothing is set")]
    if docs:
        blocks = [
            Line(f"{entry.name} = {entry.value}\n    {entry.documentation or 'no description'}")
            for entry in entries
        ]
    errors = [f"{resource} has no setting {key!r}" for key in missing]
    return Report({"kind": kind, "name": name, "configs": shapes, "error": None}, blocks, errors)
