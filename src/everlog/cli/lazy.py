"""Groups that know the names of their commands without importing them."""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem


class OutputClosed(Exception):
    """Nobody reads our output any more. Click would turn the error of the system into a failure of ours."""


class Lazy(NamedTuple):
    """Where a command is to be found, and the one line that the group's help says about it."""

    module: str
    attribute: str
    summary: str


class LazyGroup(click.Group):
    """A group whose help and completion import nothing, and whose commands import only themselves.

    An `everlog up` must serve within a quarter of a second, so it may not pay for the others.
    """

    def __init__(
        self,
        name: str,
        table: Mapping[str, Lazy],
        summary: str,
        params: list[click.Parameter] | None = None,
        examples: str = "",
    ) -> None:
        super().__init__(
            name=name,
            help=summary,
            params=params,
            epilog=examples,
            no_args_is_help=True,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands' names, in the order in which the help shows them."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None if there is none of that name."""
        entry = self._table.get(cmd_name)
        if entry is None:
            return None
        found: object = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(found, click.Command), entry
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name; a near miss is answered with the likely name."""
        if args and not args[0].startswith("-") and args[0] not in self._table:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self._table, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            expected = ", ".join(self._table)
            ctx.fail(f"{ctx.command_path} has no command {args[0]!r}.{hint} Expected one of: {expected}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self._table.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they are, unwrapped."""
        write_examples(self.epilog, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names from the table, and options as click does."""
        names = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self._table.items()
            if name.startswith(incomplete)
        ]
        if incomplete and not incomplete[0].isalnum():
            return [*names, *click.Command.shell_complete(self, ctx, incomplete)]
        return names


def write_examples(examples: str | None, formatter: click.HelpFormatter) -> None:
    """Write a help page's section of examples; click would fold its lines."""
    if not examples:
        return
    with formatter.section("Examples"):
        for line in examples.strip().splitlines():
            formatter.write(f"{'':{formatter.current_indent}}{line}\n")
