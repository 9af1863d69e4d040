"""What holds for every command: help, an example, `--json`; and what a command may import (O1)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from everlog.cli.lazy import LazyGroup
from everlog.cli.main import cli

SOURCE = str(Path(__file__).parents[3] / "src")


def commands(group: LazyGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below a group, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, LazyGroup):
            yield from commands(command, (*path, name))


ALL = list(commands(cli))
LEAVES = [(path, command) for path, command in ALL if not isinstance(command, LazyGroup)]


def ids(entries: list[tuple[tuple[str, ...], click.Command]]) -> list[str]:
    return [" ".join(path) for path, _ in entries]


@pytest.mark.parametrize(("path", "command"), ALL, ids=ids(ALL))
def test_every_command_has_help_with_an_example_that_calls_it(
    path: tuple[str, ...], command: click.Command
) -> None:
    text = command.get_help(click.Context(command, info_name=" ".join(("everlog", *path))))

    assert command.help
    example = text.partition("Examples:")[2]
    assert f"everlog {' '.join(path)}" in example


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=ids(LEAVES))
def test_every_command_but_those_that_serve_speaks_json(
    path: tuple[str, ...], command: click.Command
) -> None:
    options = {option for parameter in command.params for option in parameter.opts}

    assert ("--json" in options) is (path not in {("up",), ("server",)})


@pytest.mark.parametrize(("path", "command"), ALL, ids=ids(ALL))
def test_every_command_is_called_by_the_name_it_has_in_its_group(
    path: tuple[str, ...], command: click.Command
) -> None:
    assert command.name == path[-1]


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=ids(LEAVES))
def test_every_option_says_what_it_does(path: tuple[str, ...], command: click.Command) -> None:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, (path, parameter.name)


def modules_loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has after running some code."""
    program = f"{code}\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return set(done.stdout.split())


def test_the_entry_point_imports_nothing_of_the_commands() -> None:
    loaded = modules_loaded_by("import everlog.cli.main")

    ours = {name for name in loaded if name.startswith("everlog.")}
    assert ours == {
        "everlog.cli",
        "everlog.cli.lazy",
        "everlog.cli.main",
        "everlog.model",
        "everlog.model.errors",
    }
    assert not loaded & {"asyncio", "json", "rich", "socket", "ssl"}


def test_up_pays_neither_for_the_client_nor_for_other_commands() -> None:
    loaded = modules_loaded_by("import everlog.cli.up")

    assert not [
        name for name in loaded if name.startswith(("everlog.client", "everlog.wire", "everlog.records"))
    ]
    assert not loaded & {"asyncio", "json", "tempfile", "socket"}


def test_help_of_a_group_imports_none_of_its_commands() -> None:
    loaded = modules_loaded_by(
        "from everlog.cli.main import cli\ncli.main(['topic', '--help'], standalone_mode=False)"
    )

    assert "everlog.cli.topic" in loaded
    assert "everlog.cli.topic_change" not in loaded
