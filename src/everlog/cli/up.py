"""`everlog up`: a local broker in the foreground, ready for clients within a quarter of a second.

What is imported here is paid before the first request is served, so it is next to nothing.
"""

import os

import click

from everlog.cli.command import bare_command
from everlog.cli.options import key_values

EXAMPLES = """
$ everlog up                                # data in ./everlog-data, clients at 127.0.0.1:9092
$ everlog up --brokers 3                    # a cluster: 127.0.0.1:9092, :9093 and :9094
$ everlog up --port 0 --ephemeral           # any free port; the data goes when the broker does
$ everlog up --dir /srv/log --override log.retention.hours=24
"""

DEFAULT_DIR = "everlog-data"


@bare_command("up", examples=EXAMPLES)
@click.option(
    "--brokers",
    type=click.IntRange(min=1),
    metavar="N",
    default=None,
    help="How many brokers, each a process of its own.  [default: as many as the directory holds, else 1]",
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
    help="Port for clients, of several brokers the first; 0 takes any that is free.",
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
    *,
    brokers: int | None,
    directory: str | None,
    port: int,
    host: str,
    ephemeral: bool,
    overrides: tuple[str, ...],
) -> int:
    """Start a local broker, or a cluster of them, in the foreground.

    The first line on stdout is `ready bootstrap=HOST:PORT`, of several brokers `HOST:PORT,HOST:PORT,…`,
    printed once clients are served. Ctrl-C or SIGTERM shuts all down cleanly. Data is kept in --dir and
    found again by the next `up`.

    Three brokers or more keep three copies of each topic and acknowledge what two have; with --override
    default.replication.factor and min.insync.replicas they do otherwise. A broker that dies is reported and
    the others go on without it.
    """
    if ephemeral and directory is not None:
        raise click.UsageError("--ephemeral makes a directory of its own: leave out --dir, or --ephemeral")
    settings = key_values(overrides, "--override")
    if ephemeral:
        from tempfile import TemporaryDirectory

        # The node has let go of its files when run_node returns, so the directory can go.
        with TemporaryDirectory(prefix="everlog-") as temporary:
            return _serve(brokers or 1, host, port, temporary, settings)
    home = directory or DEFAULT_DIR
    if brokers is None and not os.path.exists(os.path.join(home, "cluster.json")):
        brokers = 1
    return _serve(brokers, host, port, home, settings)


def _serve(brokers: int | None, host: str, port: int, directory: str, overrides: dict[str, str]) -> int:
    if brokers == 1 and not os.path.exists(os.path.join(directory, "cluster.json")):
        return _serve_one(host, port, directory, overrides)
    from pathlib import Path

    from everlog.cli.up_cluster import run_cluster
    from everlog.embedded.layout import Layout

    home = Path(directory)
    if brokers is None:
        found = Layout.found(home)
        brokers = 1 if found is None else len(found.brokers)
    return run_cluster(home, brokers, host, port, overrides, announce)


def _serve_one(host: str, port: int, directory: str, overrides: dict[str, str]) -> int:
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
