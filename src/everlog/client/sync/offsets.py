"""Offsets of partitions, asked of their leaders."""

import time
from collections.abc import Collection

from everlog.client.core.errors import TimedOut
from everlog.client.core.list_offsets import EARLIEST, LATEST, list_offsets_requests, read_offsets
from everlog.client.core.offset_spec import OffsetRange, OffsetSpec, resolve
from everlog.client.core.retry import Backoff
from everlog.client.sync.cluster import Cluster
from everlog.model.errors import EverlogError
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from everlog.wire.messages.list_offsets import ListOffsetsResponse


def list_offsets(
    cluster: Cluster, places: Collection[TopicPartition], timestamp: int, *, read_committed: bool = False
) -> dict[TopicPartition, Offset | None]:
    """The offset of a moment in each partition; EARLIEST, LATEST and MAX_TIMESTAMP are moments too.

    None where no record is that young. The topics must be in the cluster's view. Leaders that move
    are followed until the cluster's time-out.
    """
    deadline = time.monotonic() + cluster.timeout
    backoff = Backoff()
    found: dict[TopicPartition, Offset | None] = {}
    last_error: EverlogError | None = None
    while True:
        missing = [place for place in places if place not in found]
        requests, again = list_offsets_requests(
            missing,
            timestamp,
            cluster.view,
            read_committed=read_committed,
            timeout_ms=int(cluster.timeout * 1000),
        )
        for node, request in requests.items():
            try:
                response = cluster.broker(node).call(request, ListOffsetsResponse, cluster.timeout)
            except EverlogError as error:
                if not error.retriable:
                    raise
                last_error = error
                again.extend(
                    TopicPartition(topic.name, partition.partition_index)
                    for topic in request.topics
                    for partition in topic.partitions
                )
                continue
            answers = read_offsets(response)
            found.update(answers.offsets)
            again.extend(answers.again)
            last_error = answers.last_error or last_error
        if not again:
            return found
        if not cluster.pause(backoff, deadline):
            raise TimedOut(
                f"offsets of {again[0]} are not to be had within {cluster.timeout:g} s: {last_error}"
            )
        cluster.refresh({place.topic for place in again})


def ranges_of(
    cluster: Cluster,
    places: Collection[TopicPartition],
    spec: OffsetSpec,
    *,
    read_committed: bool,
    stop_at_end: bool,
) -> dict[TopicPartition, OffsetRange]:
    """Turn a spec into a range of each partition; with `stop_at_end` none goes beyond what is there now."""
    earliest = list_offsets(cluster, places, EARLIEST, read_committed=read_committed)
    latest = list_offsets(cluster, places, LATEST, read_committed=read_committed)
    by_time = {
        timestamp: list_offsets(cluster, places, timestamp, read_committed=read_committed)
        for timestamp in spec.timestamps
    }
    ranges: dict[TopicPartition, OffsetRange] = {}
    for place in places:
        first, last = earliest[place] or Offset(0), latest[place] or Offset(0)
        wanted = resolve(spec, first, last, {at: offsets[place] for at, offsets in by_time.items()})
        if stop_at_end:
            end = last if wanted.end is None else Offset(min(wanted.end, last))
            wanted = OffsetRange(wanted.start, end)
        ranges[place] = wanted
    return ranges
