"""`everlog topic`: the group; its commands are in `topic_change` and `topic_view`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog topic create orders --partitions 6 --config retention.ms=86400000
$ everlog topic describe orders
"""

topic = LazyGroup(
    "topic",
    {
        "create": Lazy("everlog.cli.topic_change", "create", "Create topics."),
        "list": Lazy("everlog.cli.topic_view", "list_topics", "List topics."),
        "describe": Lazy("everlog.cli.topic_view", "describe", "Show partitions, offsets and settings."),
        "alter": Lazy("everlog.cli.topic_change", "alter", "Change settings of a topic."),
        "delete": Lazy("everlog.cli.topic_change", "delete", "Delete topics and all their records."),
        "add-partitions": Lazy("everlog.cli.topic_change", "add_partitions", "Give a topic more partitions."),
    },
    "Create, list, describe, change and delete topics.",
    examples=EXAMPLES,
)
