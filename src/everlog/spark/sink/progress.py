"""The source's offsets of a batch, for the group that is to show the query's lag (D2)."""

import logging

from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition
from everlog.spark.sink.options import SinkOptions
from everlog.spark.table.covered import noted_offsets
from everlog.tables.errors import TableError

_log = logging.getLogger(__name__)


def check_progress(options: SinkOptions) -> None:
    """Refuse a streaming query whose group would never hear of it; ConfigError says what is missing."""
    if options.commit_group is not None and options.checkpoint is None:
        raise ConfigError(
            f"option commitGroup={options.commit_group!r} needs checkpointLocation as an option of the same "
            "query, not in Spark's settings: a batch's offsets are read from there"
        )


def source_offsets(options: SinkOptions, batch: int) -> dict[TopicPartition, int]:
    """The offsets behind a batch by the query's checkpoint; none, and a warning, if that cannot be read here.

    A checkpoint may be on this machine or in a store that pyarrow reads (S3, GCS, Azure, HDFS). In one that
    only Spark may read the batch counts all the same, and the group is left to the source's own option. Where
    two sources read one partition it is the offset of the one behind.
    """
    if options.commit_group is None:
        return {}
    assert options.checkpoint is not None
    try:
        ends = noted_offsets(options.checkpoint, batch).ends
    except (OSError, TableError) as error:
        _log.warning(
            "option commitGroup=%r: the batch is written, its offsets are not committed, as "
            "checkpointLocation %r cannot be read by the sink (%s); commitGroup as an option of the source "
            "commits one batch later",
            options.commit_group,
            options.checkpoint,
            error,
        )
        return {}
    if not ends:
        _log.warning(
            "option commitGroup=%r: batch %d is written, its offsets are not committed, as "
            "checkpointLocation %r names no topic for it",
            options.commit_group, batch, options.checkpoint,
        )  # fmt: skip
    return dict(ends)
