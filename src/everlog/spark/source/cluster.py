"""What the source asks a cluster: partitions, offsets, a group's offsets, samples, and ranges of records."""

import asyncio
import re
from collections.abc import Collection, Coroutine, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from everlog.client.aio.admin import Admin
from everlog.client.core.admin.settings import AdminSettings
from everlog.client.core.consumer.fetch_plan import FIRST_VERSION_BY_ID, FetchLimits, FetchPlan
from everlog.client.core.consumer.list_offsets import TimedOffset
from everlog.client.core.consumer.offset_spec import OffsetRange
from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.errors import TimedOut, refusal
from everlog.client.core.metadata import ClusterView
from everlog.client.core.settings import read_settings
from everlog.client.drive.link import ClusterLink
from everlog.client.drive.offsets import list_offsets
from everlog.client.sync.portal import Portal
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from everlog.spark.source.client_settings import for_settings
from everlog.spark.source.offsets import EARLIEST, LATEST, Offsets
from everlog.spark.source.options import Assigned, Matching, Selection, Subscribed
from everlog.wire.messages.fetch import FetchResponse

Result = TypeVar("Result")

SAMPLE = FetchLimits(min_bytes=0, max_bytes=16 * 1024 * 1024, partition_max_bytes=64 * 1024, max_wait_ms=0)
"""How much of each partition is looked at to see how large its records are."""


class Cluster:
    """Connections to a cluster on a loop of their own, for one caller at a time. `close` ends them."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        self.settings = read_settings(ConsumerSettings, client)
        self.link = ClusterLink(self.settings)
        self.portal = Portal("everlog-spark-source")
        self._client = dict(client)
        self._admin: Admin | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run something on the loop and wait for it."""
        return self.portal.run(work)

    def close(self) -> None:
        """Close all connections. Closing twice is harmless."""
        try:
            self.portal.run(self._close())
        finally:
            self.portal.close()

    async def _close(self) -> None:
        if self._admin is not None:
            await self._admin.close()
        await self.link.close()

    # Partitions.

    def partitions(self, selection: Selection) -> set[TopicPartition]:
        """The partitions there are of what is selected; topics that do not exist have none."""
        if isinstance(selection, Assigned):
            there = self.existing({place.topic for place in selection.places})
            return there & set(selection.places)
        if isinstance(selection, Subscribed):
            return self.existing(selection.topics)
        return self._matching(selection)

    def required_partitions(self, selection: Selection) -> set[TopicPartition]:
        """As `partitions`, for a query that begins: Refused names what does not exist."""
        found = self.partitions(selection)
        wanted: Collection[str] = ()
        if isinstance(selection, Subscribed):
            wanted = selection.topics
        elif isinstance(selection, Assigned):
            wanted = [place.topic for place in selection.places]
        topics = {place.topic for place in found}
        missing = sorted(set(wanted) - topics)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        at = self.settings.bootstrap_servers
        if missing:
            raise Refused(unknown, f"there is no topic {', '.join(map(repr, missing))} at {at}")
        if isinstance(selection, Assigned) and (gone := sorted(set(selection.places) - found)):
            raise Refused(
                unknown, f"option assign: there is no partition {', '.join(map(str, gone))} at {at}"
            )
        if not found:
            assert isinstance(selection, Matching)
            raise Refused(unknown, f"option subscribePattern={selection.pattern!r}: no topic at {at} matches")
        return found

    def existing(self, topics: Collection[str]) -> set[TopicPartition]:
        """All partitions of those of the topics that exist."""
        view = self.run(self._patient_refresh(list(topics)))
        return {place for name in topics if _exists(view, name) for place in view.places(name)}

    def _matching(self, selection: Matching) -> set[TopicPartition]:
        pattern = re.compile(selection.pattern)
        view = self.run(self._patient_refresh(None))
        names = [
            name for name, topic in view.topics.items() if not topic.is_internal and pattern.fullmatch(name)
        ]
        # The view keeps what it knew of topics that were deleted; asked for by name they are told apart.
        return self.existing(names) if names else set()

    async def _patient_refresh(self, topics: list[str] | None) -> ClusterView:
        """Ask for topics until some broker answers, or the time-out."""
        loop = asyncio.get_running_loop()
        limit = self.link.timeout
        deadline, backoff = loop.time() + limit, self.link.backoff()
        while True:
            try:
                return await self.link.refresh(topics, timeout=max(0.001, deadline - loop.time()))
            except EverlogError as error:
                if not error.retriable:
                    raise
                if not await self.link.pause(backoff, deadline):
                    raise TimedOut(
                        f"no broker answered at {self.settings.bootstrap_servers} within {limit:g} s: {error}"
                    ) from None

    # Offsets.

    def earliest(self, places: Collection[TopicPartition]) -> Offsets:
        """Where logs start."""
        return _plain(self.moments(dict.fromkeys(places, EARLIEST)))

    def latest(self, places: Collection[TopicPartition], *, read_committed: bool) -> Offsets:
        """Where logs end: at the first open transaction, or at the last record that is replicated."""
        return _plain(self.moments(dict.fromkeys(places, LATEST), read_committed=read_committed))

    def moments(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, TimedOffset | None]:
        """The offsets of moments (ms); None where no record is that young."""
        if not wanted:
            return {}
        return self.run(list_offsets(self.link, wanted, read_committed=read_committed))

    def group_offsets(self, group: str, places: Collection[TopicPartition]) -> Offsets:
        """What a group has committed for partitions, without those for which it has nothing."""
        committed = self.run(self._desk().list_group_offsets(group, list(places)))
        return {place: entry.offset for place, entry in committed.items()}

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit offsets in the name of a group that has no members."""
        self.run(self._desk().alter_group_offsets(group, offsets))

    def _desk(self) -> Admin:
        if self._admin is None:
            options = for_settings(self._client, AdminSettings)
            self._admin = Admin(options.pop("bootstrap_servers"), **options)
        return self._admin

    # Samples.

    def bytes_per_offset(self, starts: Offsets) -> dict[TopicPartition, float]:
        """What an offset takes in the log, by the first batches from each of these on; some may be absent."""
        return self.run(self._sample(starts)) if starts else {}

    async def _sample(self, starts: Offsets) -> dict[TopicPartition, float]:
        ranges = {place: OffsetRange(Offset(start), None) for place, start in starts.items()}
        plan = FetchPlan(ranges, SAMPLE, read_committed=False)
        found: dict[TopicPartition, float] = {}
        for planned in plan.requests(self.link.view)[0]:
            at_most = None if planned.has_topic_ids else FIRST_VERSION_BY_ID - 1
            try:
                answer = await self.link.call_node(
                    planned.node_id, planned.request, FetchResponse, at_most=at_most
                )
                chunks = plan.take(planned, answer, self.link.view).chunks
            except EverlogError:
                # A guess will do: the trigger goes on, and whoever reads the range sees what is wrong.
                continue
            for chunk in chunks:
                first = chunk.batches[0].base_offset
                found[chunk.place] = chunk.size_bytes / max(1, chunk.next_offset - first)
        return found


@contextmanager
def connected(client: Mapping[str, Any]) -> Generator[Cluster]:
    """A cluster for as long as a block lasts."""
    cluster = Cluster(client)
    try:
        yield cluster
    finally:
        cluster.close()


def _plain(found: Mapping[TopicPartition, TimedOffset | None]) -> Offsets:
    return {place: 0 if entry is None else entry.offset for place, entry in found.items()}


def _exists(view: ClusterView, name: str) -> bool:
    topic = view.topics.get(name)
    if topic is None or topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    if topic.error is not ErrorCode.NONE and not topic.error.retriable:
        raise refusal(topic.error, None, f"topic {name!r}")
    return True
