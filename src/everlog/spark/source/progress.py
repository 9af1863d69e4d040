"""How a streaming query goes on: from one offset to the next, as topics grow, come and go."""

import logging
from collections.abc import Callable, Collection

from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.topics import TopicPartition
from everlog.spark.source.cluster import Cluster
from everlog.spark.source.offsets import Offsets
from everlog.spark.source.options import SourceOptions
from everlog.spark.source.plan import (
    Admission,
    ReadRange,
    changes,
    limit_bytes,
    limit_offsets,
    lost_before_added,
    lost_behind_end,
    lost_with_partitions,
    raise_loss,
    ranges_between,
    split_ranges,
)
from everlog.spark.source.resolving import start_offsets

_log = logging.getLogger(__name__)

LOOKS = 5
"""How often a trigger looks for partitions that go away while it does."""


class Progress:
    """What the driver keeps of a running query. `now_ms` is any clock that does not go back."""

    def __init__(self, options: SourceOptions, now_ms: Callable[[], int]) -> None:
        self._options = options
        self._cluster = Cluster(options.client)
        self._now_ms = now_ms
        self._admission = Admission(options.limits)
        self._target: Offsets | None = None
        """Where a query that reads what is available now ends; None for one that goes on."""
        self._places: set[TopicPartition] = set()
        self._places_at_ms: int | None = None
        self._origins: Offsets = {}
        """Where partitions begin that were found while the query ran: the same in each look at a batch."""
        self._topic_ids: dict[str, Uuid] = {}
        self.seen_latest: Offsets | None = None
        """The ends of the logs when they were last asked for."""

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def begin(self) -> Offsets:
        """Where a new query begins."""
        places = self._cluster.required_partitions(self._options.selection)
        start = start_offsets(self._cluster, self._options, places)
        self._check_ends(start, self._cluster.latest(places, read_committed=False))
        return start

    def stop_at_latest(self) -> None:
        """Go no further than the logs do now."""
        self._target = self._latest_now()

    def next_end(self, start: Offsets, *, limited: bool) -> Offsets:
        """How far the next batch goes: `start` itself if there is nothing to read, or too little yet.

        DataLost, unless the user does not mind, before a batch is planned: the checkpoint stays as it is.
        """
        latest = self._latest_now() if self._target is None else self._target_from(start)
        self._check_changes(start, latest)
        begin = self._begins(start, latest)
        begin, end = self._past_cuts(begin, latest)
        if limited:
            if self._target is None and self._admission.waits(begin, end, self._now_ms()):
                return start
            end = self._limited(begin, end)
        return end

    def _target_from(self, start: Offsets) -> Offsets:
        """Where the run ends. What came up while it began is not read in it, and must not be forgotten."""
        assert self._target is not None
        beside = changes(start, self._target).removed
        there = self._partitions() if beside else set[TopicPartition]()
        return {**{place: start[place] for place in beside if place in there}, **self._target}

    def ranges(self, start: Offsets, end: Offsets) -> list[ReadRange]:
        """What lies between two offsets, one range a task."""
        self._check_changes(start, end)
        begin = self._begins(start, end)
        cut = [place for place in end if begin[place] > end[place]]
        begin.update(self._cluster.earliest(cut))
        options = self._options
        return split_ranges(ranges_between(begin, end), options.min_partitions, options.max_records)

    def commit(self, group: str, end: Offsets) -> None:
        """Commit to a group; what goes wrong is logged, as nothing that is read depends on it."""
        try:
            self._cluster.commit(group, end)
        except EverlogError as error:
            _log.warning("offsets were not committed to group %r: %s", group, error)

    # What there is.

    def _partitions(self) -> set[TopicPartition]:
        ttl, now = self._options.metadata_ttl_s, self._now_ms()
        is_old = ttl is None or self._places_at_ms is None or now - self._places_at_ms >= ttl * 1000
        if is_old:
            self._places = self._cluster.partitions(self._options.selection)
            self._places_at_ms = now
            self._check_topic_ids({place.topic for place in self._places})
        return self._places

    def _latest_now(self) -> Offsets:
        """The ends of all partitions there are."""
        for tries_left in range(LOOKS - 1, -1, -1):
            try:
                places = self._partitions()
                self.seen_latest = self._cluster.latest(places, read_committed=self._options.read_committed)
                break
            except Refused as error:
                # A topic that is deleted between the two questions: the next look does not have it.
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not tries_left:
                    raise
                self._places_at_ms = None
        assert self.seen_latest is not None
        return dict(self.seen_latest)

    def _begins(self, start: Offsets, end: Offsets) -> Offsets:
        """Starts for all partitions of `end`: a new one is read from its first record on."""
        new = changes(start, end).added
        self._origins = {place: self._origins[place] for place in new if place in self._origins}
        unknown = [place for place in new if place not in self._origins]
        if unknown:
            earliest = self._cluster.earliest(unknown)
            topics = {place.topic for place in start}
            self._tell_loss(lost_before_added(unknown, topics, earliest))
            self._origins.update(earliest)
        return {place: start[place] if place in start else self._origins[place] for place in end}

    def _limited(self, begin: Offsets, end: Offsets) -> Offsets:
        limits = self._options.limits
        if limits.max_offsets is not None:
            end = limit_offsets(begin, end, limits.max_offsets)
        if limits.max_bytes is not None:
            unread = {place: begin[place] for place in end if end[place] > begin[place]}
            end = limit_bytes(begin, end, limits.max_bytes, self._cluster.bytes_per_offset(unread))
        return end

    # What is lost.

    def _check_changes(self, start: Offsets, end: Offsets) -> None:
        removed = changes(start, end).removed
        if removed:
            # An option that selects less than it did loses nothing: only what is deleted does.
            there = self._cluster.existing({place.topic for place in removed})
            self._tell_loss(lost_with_partitions(removed, there))

    def _check_topic_ids(self, topics: Collection[str]) -> None:
        """A topic of the same name that has another id was deleted, with all that was not read of it."""
        view = self._cluster.link.view
        ids = {name: found for name in topics if (found := view.topic_id(name)) != NO_UUID}
        anew = sorted(name for name, found in ids.items() if self._topic_ids.get(name, found) != found)
        self._topic_ids.update(ids)
        if anew:
            named = ", ".join(anew)
            self._tell_loss(f"topics were deleted and made anew while they were being read: {named}")

    def _past_cuts(self, begin: Offsets, latest: Offsets) -> tuple[Offsets, Offsets]:
        """Starts and ends where the log may end before what was read.

        Committed data may end before what was read as uncommitted: nothing is lost, the end is the start.
        A log that was cut or made anew is DataLost, or read from its beginning; only then does an offset lie
        before the one before it, which is how `ranges` knows.
        """
        behind = [place for place in latest if begin[place] > latest[place]]
        if not behind:
            return begin, latest
        ends = self._cluster.latest(behind, read_committed=False)
        self._check_ends({place: begin[place] for place in behind}, ends)
        cut = [place for place in behind if begin[place] > ends[place]]
        waiting = {place: begin[place] for place in behind if place not in cut}
        return {**begin, **self._cluster.earliest(cut)}, {**latest, **waiting}

    def _check_ends(self, start: Offsets, ends: Offsets) -> None:
        self._tell_loss(lost_behind_end(start, ends))

    def _tell_loss(self, loss: str | None) -> None:
        if raise_loss(loss, fail=self._options.fail_on_data_loss):
            _log.warning("%s", loss)
