"""`everlog dead-letters`: its commands are in `dead_letters_view` and `dead_letters_replay`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog dead-letters list orders.dlq
$ everlog dead-letters replay orders.dlq --error KeyError --dry-run
$ everlog dead-letters replay orders.dlq --offset @-1h
"""

dead_letters = LazyGroup(
    "dead-letters",
    {
        "list": Lazy("everlog.cli.dead_letters_view", "list_letters", "List dead letters and why they are."),
        "replay": Lazy(
            "everlog.cli.dead_letters_replay", "replay", "Send records back where they came from."
        ),
    },
    "List records that a handler could not handle, and send them back.",
    examples=EXAMPLES,
)
