"""`everlog config`: the group; its commands are in `config_change` and `config_view`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog config describe topic orders
$ everlog config set broker 1 log.cleaner.threads=2
"""

config = LazyGroup(
    "config",
    {
        "describe": Lazy("everlog.cli.config_view", "describe", "Show the settings of a topic or a broker."),
        "set": Lazy("everlog.cli.config_change", "set_configs", "Set settings of a topic or of brokers."),
        "delete": Lazy(
            "everlog.cli.config_change", "delete_configs", "Let settings fall back to their defaults."
        ),
    },
    "Describe and change settings of topics and brokers.",
    examples=EXAMPLES,
)
