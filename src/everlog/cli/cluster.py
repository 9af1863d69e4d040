"""`everlog cluster`: the group; its commands are in `cluster_view`, `cluster_health` and others."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog cluster describe
$ everlog cluster health
$ everlog cluster reassign --brokers 1,2,3,4 --throttle 50M --dry-run
"""

cluster = LazyGroup(
    "cluster",
    {
        "describe": Lazy("everlog.cli.cluster_view", "describe", "Show the brokers, and what they hold."),
        "health": Lazy("everlog.cli.cluster_health", "health", "Say what is wrong, if anything is."),
        "reassign": Lazy("everlog.cli.cluster_reassign", "reassign", "Move partitions among brokers."),
        "relocate": Lazy(
            "everlog.cli.cluster_relocate", "relocate", "Move replicas to another directory of their broker."
        ),
        "elect": Lazy("everlog.cli.cluster_elect", "elect", "Give partitions the leaders they should have."),
        "decommission": Lazy(
            "everlog.cli.cluster_decommission", "decommission", "Empty a broker and take it out."
        ),
    },
    "Look after the brokers of a cluster.",
    examples=EXAMPLES,
)
