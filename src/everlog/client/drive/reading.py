"""What is inside a consumer: its partitions, what is fetched of them, and its place in a group (C1-C5)."""

import asyncio
import inspect
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from everlog.client.core import surroundings
from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.errors import Woken
from everlog.client.core.consumer.positions import UNKNOWN, Positions
from everlog.client.core.consumer.row_feed import RowFeed
from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.errors import Closed, Misused, TimedOut
from everlog.client.core.group.types import OffsetAndMetadata, RebalanceListener
from everlog.client.drive.commits import Commits
from everlog.client.drive.fetcher import Fetcher
from everlog.client.drive.group import GroupSession
from everlog.client.drive.link import ClusterLink
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition

_log = logging.getLogger(__name__)

TAKE_BYTES = 1024 * 1024
"""About how much is taken over from the fetcher at a time, to be handed out record by record."""

LAST_COMMITS_S = 5.0
"""How long closing waits for commits that are under way."""

TEND_INTERVAL_S = 0.1
"""How long records may be handed out before the group and the automatic commits are looked after."""


class _Attention(asyncio.Event):
    """Set when the group has something for poll to do; it ends the wait of a poll too."""

    def __init__(self, news: asyncio.Event) -> None:
        super().__init__()
        self._news = news

    def set(self) -> None:
        super().set()
        self._news.set()


class Reading:
    """The engine of a consumer, on one loop. One poll at a time is the face's to see to."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self.settings = settings
        self.link = ClusterLink(settings)
        self.positions = Positions(
            settings.auto_offset_reset,
            lambda: surroundings.time_ns() // 1_000_000,
            has_group=settings.group_id is not None,
        )
        self._news = asyncio.Event()
        self._attention = _Attention(self._news)
        self.fetcher = Fetcher(self.link, settings, self.positions, self.committed, self._heard)
        self.commits = Commits(settings, self.positions, self.session)
        self.feed = RowFeed(settings.key_deserializer, settings.value_deserializer)
        self.topics: tuple[str, ...] = ()
        """What is subscribed to by name."""
        self.pattern: str | None = None
        self._listener: RebalanceListener | None = None
        self._session: GroupSession | None = None
        self._is_assigned_by_hand = False
        self._is_woken = False
        self._teller: asyncio.Task[Any] | None = None
        """The task in which a listener is being called, if one is."""
        self._waiters: list[asyncio.Future[None]] = []
        self._tended_at = float("-inf")
        self._why_closed: str | None = None
        self.link.when_inherited(self._inherited)

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more calls."""
        return self._why_closed is not None

    # Which partitions are read.

    @property
    def is_subscribed(self) -> bool:
        """Whether the group decides."""
        return bool(self.topics) or self.pattern is not None

    def subscribe(
        self, topics: Sequence[str], pattern: str | None, listener: RebalanceListener | None
    ) -> None:
        """Let the group decide, from the next poll on."""
        if self.settings.group_id is None:
            raise Misused("subscribe needs a group: expected the setting group_id, or assign partitions")
        if self._is_assigned_by_hand:
            raise Misused("partitions are assigned by hand: unsubscribe before subscribe")
        self.topics, self.pattern, self._listener = tuple(topics), pattern, listener
        if self._session is not None:
            self._session.subscribe(self.topics or None, pattern)
        self._attention.set()

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        if self._session is not None and self.is_subscribed:
            await self._session.leave()
        else:
            await self.commits.commit_last()
        self._drop(self.positions.places)
        self.topics, self.pattern, self._listener = (), None, None
        self._is_assigned_by_hand = False

    async def assign(self, places: Sequence[TopicPartition]) -> None:
        """Read these partitions, and no others, without a group to share them with; none: unsubscribe."""
        if not places:
            await self.unsubscribe()
            return
        if self.is_subscribed:
            raise Misused("topics are subscribed to: unsubscribe before assign")
        gone = [place for place in self.positions.places if place not in places]
        if gone:
            await self.commits.commit_last(gone)
            self._drop(gone)
        self._is_assigned_by_hand = True
        self.positions.add(places)
        self.fetcher.kick()

    def _drop(self, places: Collection[TopicPartition]) -> None:
        self.positions.remove(places)
        self.commits.forget(places)
        self.feed.tidy()
        self.fetcher.kick()

    def refuse_in_listener(self) -> None:
        """Misused if a listener calls that is a coroutine of the current task: it would wait for itself."""
        if self._teller is not None and self._teller is asyncio.current_task():
            raise Misused("a rebalance listener may neither poll nor close")

    # What poll is made of.

    def is_due(self, now: float) -> bool:
        """Whether `refill` must be called although records are there to be handed out."""
        return (
            now - self._tended_at > TEND_INTERVAL_S
            or self._attention.is_set()
            or self._is_woken
            or self.is_closed
        )

    async def refill(self, deadline: float, take_bytes: int = TAKE_BYTES) -> bool:
        """Look after group and commits, then have records in the feed; False if none came by the deadline.

        Raises what the application must hear of.
        """
        self.fetcher.expect(take_bytes)
        await self._tend()
        if self.feed.tidy():
            return True
        while True:
            for state, chunk in self.fetcher.take(take_bytes):
                self.feed.add(state, chunk)
            if self.feed.is_ready:
                return True
            if not await self._wait(deadline):
                return False

    async def take_chunks(self, deadline: float, max_bytes: int) -> list[Chunk]:
        """Whole chunks as they came; positions move behind them. Empty if none came by the deadline."""
        self.fetcher.expect(max_bytes)
        await self._tend()
        self.feed.give_back()
        while True:
            chunks: list[Chunk] = []
            for state, chunk in self.fetcher.take(max_bytes):
                state.handed_out(chunk.next_offset, chunk.leader_epoch)
                if chunk.batches:
                    chunks.append(chunk)
            if chunks or not await self._wait(deadline):
                return chunks

    def wake(self) -> None:
        """End the wait of a poll."""
        self._is_woken = True
        self._news.set()

    def mark_closed(self) -> None:
        """Take no more calls, and end the wait of a poll, and of whoever asks for a position."""
        if self._why_closed is None:
            self._why_closed = "this consumer is closed"
        self._heard()

    def _inherited(self, why: str) -> None:
        """This is another process now: take no more calls, and hand out no more of what was fetched."""
        self._why_closed = why
        self.feed.interrupt()

    def check_open(self) -> None:
        """Closed if no more calls are taken."""
        if self._why_closed is not None:
            raise Closed(self._why_closed)

    async def _wait(self, deadline: float) -> bool:
        """Wait for news and look after them; False at the deadline."""
        self._raise_problem()
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            # Even a poll that may not wait lets the loop receive what is there.
            await asyncio.sleep(0)
            self._raise_trouble()
            return False
        try:
            async with asyncio.timeout(left):
                await self._news.wait()
        except TimeoutError:
            self._raise_trouble()
            return False
        await self._tend()
        return True

    async def _tend(self) -> None:
        if self._teller is not None:
            raise Misused("a rebalance listener may not poll")
        # Cleared before the work: what happens meanwhile asks for another round.
        self._news.clear()
        self.check_open()
        if self._is_woken:
            self._is_woken = False
            raise Woken("wakeup was called")
        self._tended_at = asyncio.get_running_loop().time()
        if self.is_subscribed:
            self._attention.clear()
            await self.session().poll()
        self.commits.commit_if_due()

    def _raise_problem(self) -> None:
        if (crash := self.fetcher.crash) is not None:
            raise crash
        problem = self.positions.problem() or self.fetcher.failure()
        if problem is not None:
            self.fetcher.kick()
            raise problem
        if not self.is_subscribed and not self._is_assigned_by_hand:
            raise Misused("nothing to poll: subscribe to topics, or assign partitions")

    def _raise_trouble(self) -> None:
        trouble = self.fetcher.trouble
        if trouble is not None:
            raise trouble

    async def position(self, place: TopicPartition, timeout: float) -> int:
        """The offset of the record to hand out next; finds it out if need be."""
        state = self.positions.of(place)
        self.fetcher.kick()
        try:
            async with asyncio.timeout(timeout):
                while state.position == UNKNOWN:
                    if state.problem is not None:
                        raise state.problem
                    self.check_open()
                    waiter = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    await waiter
        except TimeoutError:
            trouble = self.fetcher.trouble
            reason = f": {trouble}" if trouble is not None else ""
            late = f"the position in {place} was not to be had within {timeout:g} s{reason}"
            raise TimedOut(late) from None
        return state.position

    def _heard(self) -> None:
        """Something has come, or has been found out."""
        self._news.set()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # The group.

    def session(self) -> GroupSession:
        """The membership, made when it is first needed; Misused without a group."""
        if self.settings.group_id is None:
            raise Misused("there is no group to commit to or to ask: expected the setting group_id")
        if self._session is None:
            self._session = GroupSession(self.link, self.settings, self)
            self._session.wake_on(self._attention)
            if self.is_subscribed:
                self._session.subscribe(self.topics or None, self.pattern)
        return self._session

    async def committed(
        self, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        """The group's offsets."""
        return await self.session().committed(places)

    async def revoking(self, places: Sequence[TopicPartition]) -> None:
        """Part with partitions that others get next."""
        try:
            await self.commits.commit_last(places)
            await self._call_listener("on_revoked", places)
        finally:
            self._drop(places)

    async def lost(self, places: Sequence[TopicPartition]) -> None:
        """Part with partitions that others may have already."""
        try:
            await self._call_listener("on_lost", places)
        finally:
            self._drop(places)

    async def assigned(self, places: Sequence[TopicPartition]) -> None:
        """Begin with partitions."""
        self.positions.add(places)
        try:
            await self._call_listener("on_assigned", places)
        finally:
            self.fetcher.kick()

    async def _call_listener(self, name: str, places: Sequence[TopicPartition]) -> None:
        listener = self._listener
        method: Any = getattr(listener, name, None)
        if method is None and name == "on_lost":
            method = getattr(listener, "on_revoked", None)
        if method is None:
            return
        self._teller = asyncio.current_task()
        try:
            outcome = method(places)
            if inspect.isawaitable(outcome):
                await outcome
        finally:
            self._teller = None

    # The end.

    async def close(self) -> None:
        """Commit what is automatic, leave the group, stop."""
        self.mark_closed()
        in_a_hurry = False
        try:
            await self._finish_commits()
            if self._session is None or not self.is_subscribed:
                await self.commits.commit_last()
            if self._session is not None:
                await self._session.close()
        except EverlogError as error:
            _log.warning("while closing: %s", error)
        except asyncio.CancelledError:
            in_a_hurry = True
            raise
        finally:
            await self.end(in_a_hurry=in_a_hurry)

    async def end(self, *, in_a_hurry: bool = True) -> None:
        """Stop at once; whoever waits for an answer gets Closed. The group finds out by itself.

        So do brokers of fetch sessions, unless there is time to tell them.
        """
        self.mark_closed()
        await self.commits.close()
        if self._session is not None:
            await self._session.end()
        await self.fetcher.close(in_a_hurry=in_a_hurry)
        await self.link.close()

    async def _finish_commits(self) -> None:
        try:
            async with asyncio.timeout(LAST_COMMITS_S):
                await self.commits.finish()
        except TimeoutError:
            _log.warning("while closing: commits are not answered")
