"""`everlog quorum`: the group; its command is in `quorum_view`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog quorum describe
"""

quorum = LazyGroup(
    "quorum",
    {"describe": Lazy("everlog.cli.quorum_view", "describe", "Show the controllers, and how far each is.")},
    "Look at the quorum of a cluster's controllers.",
    examples=EXAMPLES,
)
