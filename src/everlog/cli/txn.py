"""`everlog txn`: the group of commands; they are in `txn_view` and `txn_abort`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog txn list --state Ongoing --running-longer-than 5m
$ everlog txn describe orders-writer-1
$ everlog txn abort orders-writer-1
"""

txn = LazyGroup(
    "txn",
    {
        "list": Lazy("everlog.cli.txn_view", "list_transactions", "List transactional ids."),
        "describe": Lazy("everlog.cli.txn_view", "describe", "Show the transaction of a transactional id."),
        "abort": Lazy("everlog.cli.txn_abort", "abort", "Abort a transaction."),
        "find-hanging": Lazy("everlog.cli.txn_view", "find_hanging", "Find transactions nobody will end."),
    },
    "List, describe and abort transactions.",
    examples=EXAMPLES,
)
