"""How a command is declared: its help with examples, its `--json`, and how its report is shown."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from everlog.cli.lazy import OutputClosed, write_examples

if TYPE_CHECKING:
    from everlog.cli.output import Report

JSON_HELP = "Print JSON for programs."

Function = TypeVar("Function", bound=Callable[..., Any])


class ExampledCommand(click.Command):
    """A command whose help ends in examples, and that may be cut short by whoever reads its output."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; OutputClosed if its output was closed."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise OutputClosed from None

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they are, unwrapped."""
        write_examples(self.epilog, formatter)


def command_name(ctx: click.Context | None = None) -> str:
    """The running command without the program's name, such as `topic list`."""
    context = ctx or click.get_current_context()
    return context.command_path.partition(" ")[2]


def bare_command(name: str, *, examples: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a command that writes its own output and returns its exit code."""
    assert examples.strip(), f"command {name} has no example"

    def declare(function: Callable[..., Any]) -> click.Command:
        declared: click.Command = click.command(
            name,
            cls=ExampledCommand,
            epilog=examples,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )(function)
        return declared

    return declare


def command(name: str, *, examples: str) -> "Callable[[Callable[..., Report]], click.Command]":
    """Declare a command that returns a Report; it gets the option `--json`."""

    # A broker's command reports nothing, and is not to pay for it.
    from everlog.cli.output import show

    def declare(function: "Callable[..., Report]") -> click.Command:
        @wraps(function)
        def run(*args: Any, as_json: bool, **options: Any) -> int:
            return show(function(*args, **options), command_name(), as_json=as_json)

        declared = bare_command(name, examples=examples)(run)
        declared.params.append(click.Option(["--json", "as_json"], is_flag=True, help=JSON_HELP))
        return declared

    return declare


def json_option(function: Function) -> Function:
    """Add `--json`, which arrives as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=JSON_HELP)(function)
