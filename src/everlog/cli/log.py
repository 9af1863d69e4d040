"""`everlog log`: the group; its commands are in `log_dump` and `log_verify`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog log dump everlog-data/orders-0/00000000000000000000.log --records
$ everlog log verify everlog-data
"""

log = LazyGroup(
    "log",
    {
        "dump": Lazy("everlog.cli.log_dump", "dump", "Print what segments, indexes and checkpoints hold."),
        "verify": Lazy(
            "everlog.cli.log_verify", "verify", "Check checksums, offsets and indexes of a directory."
        ),
    },
    "Look into the files of a log on disk, and check them. Files of Apache Kafka are the same.",
    examples=EXAMPLES,
)
