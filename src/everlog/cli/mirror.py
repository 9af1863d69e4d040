"""`everlog mirror`: the group of commands; they are in `mirror_offsets`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog mirror offsets --group billing --target 127.0.0.1:9192
$ everlog mirror offsets --group billing --target 127.0.0.1:9192 --execute
"""

mirror = LazyGroup(
    "mirror",
    {
        "offsets": Lazy("everlog.cli.mirror_offsets", "offsets", "Tell where a group goes on in a mirror."),
    },
    "Move groups to a mirror of their topics on another cluster.",
    examples=EXAMPLES,
)
