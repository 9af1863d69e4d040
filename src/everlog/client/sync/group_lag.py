"""Reads the one record in each partition that says how old a group's lag is."""

import time
from collections.abc import Mapping

from everlog.client.core.fetch_plan import FIRST_VERSION_BY_ID
from everlog.client.core.group_lag import ONE_RECORD, FirstTimestamps
from everlog.client.core.offset_spec import OffsetRange
from everlog.client.core.retry import Backoff
from everlog.client.sync.cluster import Cluster
from everlog.model.errors import EverlogError
from everlog.model.ids import Timestamp
from everlog.model.topics import TopicPartition
from everlog.wire.messages.fetch import FetchResponse


def first_timestamps(
    cluster: Cluster, ranges: Mapping[TopicPartition, OffsetRange]
) -> dict[TopicPartition, Timestamp | None]:
    """The timestamp of the first record in each range, None where there is no record.

    A partition whose record could not be had within the cluster's time-out is absent: lag is worth showing
    without it.
    """
    search = FirstTimestamps(ranges)
    deadline = time.monotonic() + cluster.timeout
    backoff = Backoff()
    while not search.finished and time.monotonic() < deadline:
        before = len(search.found)
        stale = not _round(cluster, search)
        if len(search.found) > before:
            backoff.reset()
        elif not search.finished and not cluster.pause(backoff, deadline):
            break
        if stale and not search.finished:
            cluster.refresh(search.topics)
    return search.found


def _round(cluster: Cluster, search: FirstTimestamps) -> bool:
    """Ask every leader once; False if the picture of the cluster is stale."""
    planned = search.requests(cluster.view)
    fresh = bool(planned)
    for fetch in planned:
        at_most = None if fetch.has_topic_ids else FIRST_VERSION_BY_ID - 1
        limit = cluster.timeout + ONE_RECORD.max_wait_ms / 1000
        try:
            connection = cluster.broker(fetch.node_id)
            response = connection.call(fetch.request, FetchResponse, limit, at_most=at_most)
        except EverlogError as error:
            if not error.retriable:
                raise
            fresh = False
            continue
        fresh = not search.take(fetch, response, cluster.view) and fresh
    return fresh
