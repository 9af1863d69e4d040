"""The source's offsets of a batch, for the group that is to show the query's lag (D2)."""

import logging

from everlog.model.topics import TopicPartition
from everlog.spark.sink.options import SinkOptions
from everlog.spark.table.covered import local_path, read_offsets

_log = logging.getLogger(__name__)


def source_offsets(options: SinkOptions, batch: int) -> dict[TopicPartition, int]:
    """The offsets behind a batch by the query's checkpoint; none, and a warning, if that cannot be read here.

    A checkpoint in a file system that only Spark reads, or one that was not given as an option but in Spark's
    settings, leaves the group to the source, which commits one batch later.
    """
    if options.commit_group is None:
        return {}
    folder = None if options.checkpoint is None else local_path(options.checkpoint)
    if folder is None:
        found = "is not given as an option" if options.checkpoint is None else f"is {options.checkpoint!r}"
        _log.warning(
            "option commitGroup=%r: checkpointLocation %s, expected a folder of this machine; the source "
            "commits instead, one batch later",
            options.commit_group,
            found,
        )
        return {}
    try:
        return read_offsets((folder / "offsets" / str(batch)).read_text())
    except OSError as error:
        _log.warning("option commitGroup=%r: %s cannot be read: %s", options.commit_group, folder, error)
        return {}
