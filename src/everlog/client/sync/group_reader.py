"""Reading as a member of a group: partitions are shared with the others, offsets committed (C2-C5)."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from everlog.client.core.coordinators import CoordinatorKind
from everlog.client.core.errors import TimedOut
from everlog.client.core.fetch_plan import Chunk, FetchLimits
from everlog.client.core.group_offsets import (
    LAST_VERSION_BY_NAME,
    NO_GENERATION,
    commit_offsets_request,
    fetch_offsets_request,
    offset_commit_codes,
    offset_fetch_codes,
    read_commits,
    read_committed_offsets,
)
from everlog.client.core.list_offsets import EARLIEST, LATEST
from everlog.client.core.membership import Advice, GroupMember, MemberSettings, Phase
from everlog.client.core.offset_spec import OffsetRange
from everlog.client.core.retry import Backoff
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.coordinators import Coordinators
from everlog.client.sync.offsets import list_offsets
from everlog.client.sync.record_reader import RecordReader
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.ids import Instant, Offset
from everlog.model.topics import TopicPartition
from everlog.wire.message import Message
from everlog.wire.messages.heartbeat import HeartbeatResponse
from everlog.wire.messages.join_group import JoinGroupResponse
from everlog.wire.messages.leave_group import LeaveGroupResponse
from everlog.wire.messages.offset_commit import OffsetCommitResponse
from everlog.wire.messages.offset_fetch import OffsetFetchResponse
from everlog.wire.messages.sync_group import SyncGroupResponse

Answer = TypeVar("Answer", bound=Message)

_GROUP = CoordinatorKind.GROUP
COMMIT_INTERVAL_S = 5.0
METADATA_INTERVAL_S = 30.0
IDLE_S = 0.2
LEAVE_PATIENCE_S = 2.0


class GroupReader:
    """A member of a group that reads topics; leaving the `with` block commits and leaves the group.

    Everything happens within `poll`: heartbeats, commits, joining again after a rebalance. What one call
    returned counts as consumed at the next one, unless `rewind` says otherwise, so records are seen at least
    once: whoever dies before the next commit leaves them to be read again.

    >>> with GroupReader(cluster, "billing", ["orders"], from_start=True) as reader:
    ...     for chunk in reader.poll():
    ...         print(chunk.place, [record.value for record in chunk.records()])
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        *,
        from_start: bool,
        stop_at_end: bool = False,
        read_committed: bool = False,
        limits: FetchLimits | None = None,
        settings: MemberSettings | None = None,
    ) -> None:
        """`from_start` says where to begin in a partition without an offset that can be gone on from.

        With `stop_at_end` each assignment is read up to what was the end when it was made.
        """
        self._cluster = cluster
        self._settings = settings or MemberSettings()
        self._member = GroupMember(group_id, topics, self._settings)
        self._coordinators = Coordinators(cluster, own_connections=True)
        self._from_start = from_start
        self._stop_at_end = stop_at_end
        self._read_committed = read_committed
        self._limits = limits or FetchLimits()
        self._reader: RecordReader | None = None
        """Reads what is assigned; None while nothing is."""
        self._returned: dict[TopicPartition, int] = {}
        """The offset behind what `poll` has returned, by partition."""
        self._consumed: dict[TopicPartition, int] = {}
        """The same as of the last but one `poll`: what the caller has surely done with."""
        self._committed: dict[TopicPartition, int] = {}
        """What the coordinator has of it, as far as we know."""
        self._commit_at = 0.0
        self._metadata_at = 0.0

    @property
    def assignment(self) -> Sequence[TopicPartition]:
        """The partitions that are ours to read now."""
        return self._member.assignment

    @property
    def finished(self) -> bool:
        """Whether `stop_at_end` is reached: all that is assigned has been read to where it ended."""
        joined = self._stop_at_end and self._member.phase is Phase.STABLE
        return joined and (self._reader is None or self._reader.finished)

    def poll(self) -> list[Chunk]:
        """The next records; waits for them at most about the fetch's wait time, and longer only to join."""
        self._consumed = dict(self._returned)
        self._keep_in_touch()
        if self._member.phase is not Phase.STABLE:
            self.commit()  # Whoever gets our partitions next shall not read again what we have read.
            self._join()
        if self._reader is None:
            time.sleep(IDLE_S)  # Others have all partitions; only heartbeats are left to do.
            return []
        try:
            chunks = self._reader.poll()
        except Refused as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            # Retention has overtaken us: go on where the log begins now, or where we were told to.
            self._read_from(self._returned)
            return []
        self._returned = {place: int(at) for place, at in self._reader.positions.items()}
        return chunks

    def rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Take back that records from these offsets on were consumed, before a `commit` that is the last."""
        self._returned.update(offsets)

    def commit(self) -> None:
        """Commit all that `poll` has returned; a rebalance that it meets is dealt with by the next `poll`."""
        self._commit_at = time.monotonic() + COMMIT_INTERVAL_S
        changed = {place: at for place, at in self._returned.items() if self._committed.get(place) != at}
        membership = self._member.membership
        if not changed or membership.generation == NO_GENERATION:
            return  # Nobody may commit for a group that has gone on without him.
        answer = self._coordinators.ask(
            _GROUP,
            self._member.group_id,
            commit_offsets_request(self._member.group_id, changed, membership),
            OffsetCommitResponse,
            offset_commit_codes,
            at_most=LAST_VERSION_BY_NAME,
        )
        for place, problem in read_commits(answer, self._member.group_id).items():
            if problem is None:
                self._committed[place] = changed[place]
            elif self._member.take_commit_code(problem.code) is not Advice.AGAIN:
                raise problem

    def close(self) -> None:
        """Commit all that `poll` has returned, leave the group and give up what is under way."""
        try:
            self.commit()
        finally:
            self._leave()

    def give_up(self) -> None:
        """Leave as `close` does, but commit only what was consumed for sure; never raises an error of ours.

        The last records that `poll` returned may have been interrupted on their way to wherever they go.
        """
        # An answer that was being read when we were interrupted would be taken for that to the next call.
        self._coordinators.close()
        self._returned = dict(self._consumed)
        try:
            self.commit()
        except EverlogError:
            pass  # They will be read again; why we give up matters more.
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.give_up()

    def _keep_in_touch(self) -> None:
        """Heartbeat, commit and look at the topics' sizes, each when it is time to."""
        now = time.monotonic()
        if now >= self._commit_at:
            self.commit()
        if now >= self._metadata_at and self._member.topics_to_share_out:
            self._member.notice_partitions(self._partition_counts())
        request = self._member.heartbeat_request(_instant())
        if request is None:
            return
        try:
            answer = self._call(request, HeartbeatResponse, self._cluster.timeout)
        except EverlogError as error:
            if not error.retriable:
                raise
            # The session outlives a few missed heartbeats; the next one goes to whoever coordinates then.
            self._coordinators.forget(_GROUP, self._member.group_id)
            return
        if self._member.take_heartbeat(answer, _instant()) is Advice.FIND:
            self._coordinators.forget(_GROUP, self._member.group_id)

    def _join(self) -> None:
        """Join until the group is stable; TimedOut if no coordinator answers within the time-out."""
        self._stop_reading()
        deadline = time.monotonic() + self._cluster.timeout
        backoff = Backoff()
        last_error: EverlogError | None = None
        while self._member.phase is not Phase.STABLE:
            try:
                advice = self._join_once()
            except EverlogError as error:
                if not error.retriable:
                    raise
                last_error = error
                advice = Advice.FIND
            if advice is Advice.GO_ON:
                deadline = time.monotonic() + self._cluster.timeout
                backoff.reset()
                continue
            if advice is Advice.FIND:
                self._coordinators.forget(_GROUP, self._member.group_id)
            if not self._cluster.pause(backoff, deadline):
                limit = f"{self._cluster.timeout:g} s"
                raise last_error or TimedOut(
                    f"group {self._member.group_id!r} did not come to rest within {limit}"
                )
        self._read_from(self._fetch_committed())

    def _join_once(self) -> Advice:
        limit = self._settings.rebalance_timeout_ms / 1000 + self._cluster.timeout
        if self._member.phase is Phase.OUTSIDE:
            return self._member.take_join(self._call(self._member.join_request(), JoinGroupResponse, limit))
        request = self._member.sync_request(self._partition_counts())
        return self._member.take_sync(self._call(request, SyncGroupResponse, limit), _instant())

    def _partition_counts(self) -> dict[str, int]:
        """How many partitions each topic has that we are to share out; one that does not exist has none."""
        self._metadata_at = time.monotonic() + METADATA_INTERVAL_S
        topics = self._member.topics_to_share_out
        if not topics:
            return {}
        view = self._cluster.refresh(topics)
        return {name: len(view.topics[name].partitions) for name in topics if name in view.topics}

    def _fetch_committed(self) -> dict[TopicPartition, int]:
        group_id, places = self._member.group_id, self._member.assignment
        if not places:
            return {}
        answer = self._coordinators.ask(
            _GROUP,
            group_id,
            fetch_offsets_request(group_id, places, require_stable=True),
            OffsetFetchResponse,
            offset_fetch_codes,
            at_most=LAST_VERSION_BY_NAME,
        )
        found = read_committed_offsets(answer, group_id)
        self._committed = {place: entry.offset for place, entry in found.items() if entry is not None}
        return dict(self._committed)

    def _read_from(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Begin to read what is assigned, at these offsets where they are in the log."""
        self._stop_reading()
        places = list(self._member.assignment)
        if not places:
            return
        self._cluster.topics(sorted({place.topic for place in places}))
        starts = list_offsets(self._cluster, places, EARLIEST, read_committed=self._read_committed)
        ends = list_offsets(self._cluster, places, LATEST, read_committed=self._read_committed)
        ranges: dict[TopicPartition, OffsetRange] = {}
        for place in places:
            start, end = starts[place] or Offset(0), ends[place] or Offset(0)
            at = offsets.get(place)
            if at is None or not start <= at <= end:
                at = start if self._from_start else end
            ranges[place] = OffsetRange(Offset(at), end if self._stop_at_end else None)
        self._returned = {place: wanted.start for place, wanted in ranges.items()}
        self._reader = RecordReader(
            self._cluster, ranges, limits=self._limits, read_committed=self._read_committed
        )

    def _stop_reading(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None
        self._returned = {}
        self._consumed = {}

    def _leave(self) -> None:
        request = self._member.leave_request()
        try:
            if request is not None:
                self._call(request, LeaveGroupResponse, LEAVE_PATIENCE_S)
        except EverlogError:
            pass  # The session runs out by itself.
        finally:
            self._stop_reading()
            self._coordinators.close()

    def _call(self, request: Message, answer_type: type[Answer], limit: float) -> Answer:
        connection = self._coordinators.connection(_GROUP, self._member.group_id)
        return connection.call(request, answer_type, limit)


def _instant() -> Instant:
    return Instant(int(time.monotonic() * 1000))
