"""`everlog chaos`: the group; its commands are in `chaos_run` and `chaos_view`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog chaos run --html chaos.html
$ everlog chaos list
"""

chaos = LazyGroup(
    "chaos",
    {
        "run": Lazy("everlog.cli.chaos_run", "run", "Break a cluster under load, and judge what it does."),
        "list": Lazy(
            "everlog.cli.chaos_view", "list_scenarios", "List scenarios, steps, and means to break."
        ),
    },
    "Break a cluster on purpose, and measure what is lost.",
    examples=EXAMPLES,
)
