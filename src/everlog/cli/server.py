"""`everlog server`: one node from a file of settings with Kafka's names."""

import click

from everlog.cli.command import bare_command
from everlog.cli.options import key_values
from everlog.cli.properties import read_properties
from everlog.cli.up import announce

EXAMPLES = """
$ everlog server --config server.properties
$ everlog server --config server.properties --override log.dirs=/srv/log --override node.id=2
"""


@bare_command("server", examples=EXAMPLES)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    required=True,
    help="File of key=value lines.",
)
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A setting that wins over the file's."
)
def server(*, config_file: str, overrides: tuple[str, ...]) -> int:
    """Run one node from a properties file until SIGTERM or Ctrl-C.

    Settings have Kafka's names. One that is unknown, or has a value it cannot have, ends the start with
    an error that names it.
    """
    from everlog.model.settings import broker_settings
    from everlog.node.run import run_node

    settings = broker_settings({**read_properties(config_file), **key_values(overrides, "--override")})
    run_node(settings, on_ready=announce)
    return 0
