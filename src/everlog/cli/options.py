"""Options that many commands share."""

import sys
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def bootstrap_option(function: Function) -> Function:
    """Add `-b/--bootstrap` and `--timeout`; they arrive as `bootstrap` and `timeout`."""
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


class CodecChoice(click.ParamType):
    """The name of a compression codec, which arrives as a `Codec`."""

    name = "codec"
    names = ("none", "gzip", "snappy", "lz4", "zstd")

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """How the help shows what may be given."""
        return f"[{'|'.join(self.names)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn a name into the codec."""
        from everlog.records.compression import Codec

        if isinstance(value, Codec):
            return value
        if value not in self.names:
            self.fail(f"{value!r} is not a codec: expected one of {', '.join(self.names)}", param, ctx)
        return Codec[value.upper()]


def codec_option(function: Function) -> Function:
    """Add `--codec`, which arrives as a `Codec`."""
    return click.option(
        "--codec", type=CodecChoice(), default="none", show_default=True, help="Compression."
    )(function)


class AcksChoice(click.ParamType):
    """`all`, 1 or 0, which arrives as the number on the wire."""

    name = "acks"
    numbers: ClassVar[dict[str, int]] = {"all": -1, "-1": -1, "1": 1, "0": 0}

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """How the help shows what may be given."""
        return "[all|1|0]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn a word into the number."""
        if isinstance(value, int):
            return value
        if value not in self.numbers:
            self.fail(f"{value!r} cannot be acks: expected all, 1 or 0", param, ctx)
        return self.numbers[value]


def acks_option(function: Function) -> Function:
    """Add `--acks`, which arrives as -1, 1 or 0."""
    return click.option(
        "--acks",
        type=AcksChoice(),
        default="all",
        show_default=True,
        help="Who must have a record: all, the leader, none.",
    )(function)
