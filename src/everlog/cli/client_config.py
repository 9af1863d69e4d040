"""`--client-config`: how commands prove who they are, from a file with Kafka's names."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

Function = TypeVar("Function", bound=Callable[..., Any])

_KEPT_AS = "everlog.client_config"
_SAID_ELSEWHERE = {
    "bootstrap.servers": "--bootstrap",
    "request.timeout.ms": "--timeout",
    "default.api.timeout.ms": "--timeout",
    "socket.connection.setup.timeout.ms": "--timeout",
}


def client_config_option(function: Function) -> Function:
    """Add `--client-config`; what is in the file is not handed to the command: `client_config` has it."""
    return click.option(
        "--client-config",
        envvar="EVERLOG_CLIENT_CONFIG",
        show_envvar=True,
        metavar="FILE",
        expose_value=False,
        callback=_keep,
        help="Settings of clients by Kafka's names, such as those of TLS and SASL.",
    )(function)


def client_config() -> dict[str, Any]:
    """Keyword arguments for each client of the running command; none without a file."""
    context = click.get_current_context(silent=True)
    return {} if context is None else dict(cast("dict[str, Any]", context.meta.get(_KEPT_AS, {})))


def read_client_config(path: str) -> dict[str, Any]:
    """The settings in a properties file, as keyword arguments that every client takes.

    UsageError names what will not do, and shows no secret.
    """
    from everlog.client.core.kafka_names import named_by_kafka
    from everlog.client.core.settings import ConnectionSettings
    from everlog.model.errors import ConfigError
    from everlog.model.settings.properties import parse_properties

    try:
        given = parse_properties(Path(path).read_text("utf-8"))
        for name, option in _SAID_ELSEWHERE.items():
            if name in given:
                raise ConfigError(f"setting {name} has no place here: {option} says it")
        return named_by_kafka(given, ConnectionSettings)
    except OSError as error:
        raise click.UsageError(f"client config {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"client config {path} cannot be read: expected UTF-8") from None
    except ConfigError as error:
        raise click.UsageError(f"client config {path}: {error}") from None


def _keep(ctx: click.Context, _param: click.Parameter, path: str | None) -> None:
    if path:
        ctx.meta[_KEPT_AS] = read_client_config(path)
