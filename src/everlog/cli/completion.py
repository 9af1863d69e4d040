"""`everlog completion`: the script that lets a shell complete commands, options and names of topics."""

import click
from click.shell_completion import get_completion_class

from everlog.cli.command import command
from everlog.cli.output import Line, Report

EXAMPLES = """
$ eval "$(everlog completion bash)"                            # in ~/.bashrc
$ eval "$(everlog completion zsh)"                             # in ~/.zshrc
$ everlog completion fish > ~/.config/fish/completions/everlog.fish
"""

PROGRAM = "everlog"
VARIABLE = "_EVERLOG_COMPLETE"


@command("completion", examples=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> Report:
    """Print the completion script of a shell.

    Names of topics are asked of the cluster that --bootstrap or EVERLOG_BOOTSTRAP names; one that does not
    answer within a second completes nothing.
    """
    from everlog.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None, shell
    complete = kind(cli, {}, PROGRAM, VARIABLE)
    # Not `source()`: in click that also runs the shell to look at its version.
    script = complete.source_template % complete.source_vars()
    return Report({"shell": shell, "script": script}, [Line(script)])
