"""Options that many commands share."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from everlog.cli.client_config import client_config_option

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def _bootstrap(_ctx: click.Context, _param: click.Parameter, text: str) -> str:
    from everlog.client.core.addresses import parse_bootstrap
    from everlog.model.errors import ConfigError

    try:
        parse_bootstrap(text)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return text


def bootstrap_option(function: Function) -> Function:
    """Add `-b/--bootstrap` and `--timeout`, which arrive under these names, and `--client-config`."""
    function = client_config_option(function)
    function = click.option(
        "--timeout",
        type=click.FloatRange(min=0.0, min_open=True),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Give up on an answer after so long.",
    )(function)
    return click.option(
        "-b",
        "--bootstrap",
        envvar="EVERLOG_BOOTSTRAP",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT[,…]",
        callback=_bootstrap,
        help="Where to find the cluster.",
    )(function)


def yes_option(function: Function) -> Function:
    """Add `--yes`, for those who do not want to be asked."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(function)


def dry_run_option(function: Function) -> Function:
    """Add `--dry-run`, which checks and changes nothing."""
    return click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")(
        function
    )


def confirm(question: str, *, yes: bool) -> bool:
    """Ask before something that cannot be undone. Scripts, which have no terminal, are not asked."""
    if yes or not sys.stdin.isatty():
        return True
    return click.confirm(question, err=True)


def key_values(pairs: tuple[str, ...], what: str) -> dict[str, str]:
    """Read `key=value` arguments into a dict; one without `=` or without a key is wrong usage."""
    read: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{what} {pair!r} cannot be read: expected KEY=VALUE")
        read[key.strip()] = value.strip()
    return read


def _codec(_ctx: click.Context, _param: click.Parameter, name: str) -> object:
    from everlog.records.compression import Codec

    return Codec[name.upper()]


def codec_option(function: Function) -> Function:
    """Add `--codec`, which arrives as a `Codec`."""
    return click.option(
        "--codec",
        type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
        default="none",
        show_default=True,
        callback=_codec,
        help="Compression.",
    )(function)


_ACKS = {"all": -1, "1": 1, "0": 0}


def _acks(_ctx: click.Context, _param: click.Parameter, word: str) -> int:
    return _ACKS[word]


def acks_option(function: Function) -> Function:
    """Add `--acks`, which arrives as the number on the wire: -1 for all, 1 or 0."""
    return click.option(
        "--acks",
        type=click.Choice(list(_ACKS)),
        default="all",
        show_default=True,
        callback=_acks,
        help="Who must have a record: all, the leader, none.",
    )(function)
