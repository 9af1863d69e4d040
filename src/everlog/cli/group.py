"""`everlog group`: the group of commands; they are in `group_view`, `group_reset` and `group_change`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog group list
$ everlog group describe billing
$ everlog group reset-offsets billing --topic orders --by-duration 1h --execute
"""

group = LazyGroup(
    "group",
    {
        "list": Lazy("everlog.cli.group_view", "list_groups", "List groups."),
        "describe": Lazy("everlog.cli.group_view", "describe", "Show members, offsets and lag of a group."),
        "reset-offsets": Lazy("everlog.cli.group_reset", "reset_offsets", "Move a group to other offsets."),
        "delete": Lazy("everlog.cli.group_change", "delete", "Delete groups and their offsets."),
        "delete-offsets": Lazy("everlog.cli.group_change", "delete_offsets", "Forget offsets of a topic."),
    },
    "List and describe groups with their lag, reset and delete their offsets.",
    examples=EXAMPLES,
)
