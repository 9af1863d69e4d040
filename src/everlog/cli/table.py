"""`everlog table`: its commands are in `table_declare`, `_view`, `_run`, `_upkeep` and `_back`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog table declare orders --topic orders --location lake/orders --schema 'id long, item string'
$ everlog table run orders --once
$ everlog table describe orders
$ everlog table compact orders
$ everlog table to-topic orders orders.restored
"""

table = LazyGroup(
    "table",
    {
        "declare": Lazy("everlog.cli.table_declare", "declare", "Declare that a topic is kept as a table."),
        "list": Lazy("everlog.cli.table_view", "list_tables", "List declared tables."),
        "describe": Lazy("everlog.cli.table_view", "describe", "Show a table, its commits and its lag."),
        "run": Lazy("everlog.cli.table_run", "run", "Keep a table up to date with its topic."),
        "backfill": Lazy("everlog.cli.table_run", "backfill", "Fill in what a table missed, from offset 0."),
        "compact": Lazy("everlog.cli.table_upkeep", "compact", "Make few files of many small ones."),
        "expire": Lazy("everlog.cli.table_upkeep", "expire", "Forget old commits and remove their files."),
        "drop": Lazy("everlog.cli.table_declare", "drop", "Take a declaration back, or the table with it."),
        "to-topic": Lazy("everlog.cli.table_back", "to_topic", "Send the rows of a table to a topic."),
    },
    "Keep topics as lake tables: Parquet, Iceberg or Delta, each record once.",
    examples=EXAMPLES,
)
