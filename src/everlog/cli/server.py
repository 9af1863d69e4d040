"""`everlog server`: one node from a file of settings with Kafka's names."""

import click

from everlog.cli.command import bare_command
from everlog.cli.options import key_values
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
    from everlog.model.errors import ConfigError
    from everlog.model.settings import parse_broker_settings
    from everlog.node.run import run_node

    with open(config_file, "rb") as file:
        raw = file.read()
    try:
        settings = parse_broker_settings(raw.decode(), key_values(overrides, "--override"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{config_file} is not text: byte {error.start} is not UTF-8") from None
    except ConfigError as error:
        raise ConfigError(f"{config_file}: {error}") from None
    run_node(settings, on_ready=announce)
    return 0
