"""`everlog cluster`: the group; its command is in `cluster_view`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog cluster describe
"""

cluster = LazyGroup(
    "cluster",
    {"describe": Lazy("everlog.cli.cluster_view", "describe", "Show the brokers, and what they hold.")},
    "Look at the brokers of a cluster.",
    examples=EXAMPLES,
)
