"""`everlog up`: a local broker in the foreground, ready for clients within a quarter of a second.

What is imported here is paid before the first request is served, so it is next to nothing.
"""

import os

import click

from everlog.cli.command import bare_command
from everlog.cli.options import key_values

EXAMPLES = """
$ everlog up                                # data in ./everlog-data, clients at 127.0.0.1:9092
$ everlog up --port 0 --ephemeral           # any free port; the data goes when the broker does
$ everlog up --dir /srv/log --override log.retention.hours=24
"""

DEFAULT_DIR = "everlog-data"


@bare_command("up", examples=EXAMPLES)
@click.option(
    "--brokers",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="How many brokers.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False),
    default=None,
    help=f"Where the data lives.  [default: ./{DEFAULT_DIR}]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=9092,
    show_default=True,
    help="Port for clients; 0 takes any that is free.",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on, and to tell clients."
)
@click.option(
    "--ephemeral", is_flag=True, help="Keep the data in a temporary directory and remove it at the end."
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting, by Kafka's name; repeatable.",
)
def up(
    *, brokers: int, directory: str | None, port: int, host: str, ephemeral: bool, overrides: tuple[str, ...]
) -> int:
    """Start a local broker in the foreground.

    The first line on stdout is `ready bootstrap=HOST:PORT`, printed once clients are served. Ctrl-C or
    SIGTERM shuts it down cleanly. Data is kept in --dir and found again by the next `up`.
    """
    if brokers > 1:
        raise click.UsageError(
            f"--brokers is {brokers}, expected 1: clusters of brokers come with a later release"
        )
    if ephemeral and directory is not None:
        raise click.UsageError("--ephemeral makes a directory of its own: leave out --dir, or --ephemeral")
    settings = key_values(overrides, "--override")
    if ephemeral:
        from tempfile import TemporaryDirectory

        # The node has let go of its files when run_node returns, so the directory can go.
        with TemporaryDirectory(prefix="everlog-") as temporary:
            return _serve(host, port, temporary, settings)
    return _serve(host, port, directory or DEFAULT_DIR, settings)


def _serve(host: str, port: int, directory: str, overrides: dict[str, str]) -> int:
    from everlog.model.settings import broker_settings
    from everlog.node.run import run_node

    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    settings = broker_settings(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{address}",
            "advertised.listeners": f"PLAINTEXT://{address}",
            "log.dirs": os.path.abspath(directory),
            **overrides,
        }
    )
    run_node(settings, on_ready=announce)
    return 0


def announce(bootstrap: str) -> None:
    """Tell whoever started us, on the first line of stdout, that clients are served and where."""
    click.echo(f"ready bootstrap={bootstrap}")
