"""A consumer's commits, one after another, and those that nobody asks for (C5)."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from everlog.client.core.consumer.positions import UNKNOWN, Positions
from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.errors import Closed, TimedOut
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.client.drive.group import GroupSession
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition

_log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
OnCommit = Callable[[Offsets, EverlogError | None], object]


class Commits:
    """Commits in the order in which they were asked for: a later one never loses to an earlier one."""

    def __init__(
        self,
        settings: ConsumerSettings,
        positions: Positions,
        session: Callable[[], GroupSession],
    ) -> None:
        self.made = 0
        self.failed = 0
        self._settings = settings
        self._positions = positions
        self._session = session
        self._in_turn = asyncio.Lock()
        self._later: dict[asyncio.Task[None], None] = {}
        """In the order in which they began, so that they end in it too."""
        self._is_automatic = settings.enable_auto_commit and settings.group_id is not None
        self._due_at: float | None = None
        self._last: dict[TopicPartition, int] = {}
        """What was committed automatically, to leave out what has not moved."""

    def consumed(
        self, places: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the application has been given: the offset that it gets next, by partition."""
        return {
            state.place: OffsetAndMetadata(state.position, "", state.position_epoch)
            for state in self._positions
            if state.position != UNKNOWN and (places is None or state.place in places)
        }

    async def commit(self, offsets: Offsets, timeout: float | None = None) -> None:
        """Commit once all earlier ones are done, within the time-out."""
        limit = self._settings.api_timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(limit), self._in_turn:
                if offsets:
                    await self._session().commit(offsets)
                    self.made += 1
        except EverlogError:
            self.failed += 1
            raise
        except TimeoutError:
            self.failed += 1
            raise TimedOut(f"offsets were not committed within {limit:g} s") from None

    def commit_later(self, offsets: Offsets, on_done: OnCommit) -> None:
        """Commit without waiting; `on_done` is called on the loop with the error, if there is one."""
        task = asyncio.get_running_loop().create_task(self._commit_and_tell(offsets, on_done))
        self._later[task] = None
        task.add_done_callback(self._later.pop)

    def commit_if_due(self) -> None:
        """Commit automatically what the application has been given, if it is time to."""
        if not self._is_automatic:
            return
        now = asyncio.get_running_loop().time()
        if self._due_at is None:
            self._due_at = now + self._settings.auto_commit_interval_ms / 1000
        if now < self._due_at:
            return
        self._due_at = now + self._settings.auto_commit_interval_ms / 1000
        offsets = self._moved(None)
        if offsets:
            self._last.update({place: entry.offset for place, entry in offsets.items()})
            self.commit_later(offsets, self._committed_automatically)

    async def commit_last(
        self, places: Collection[TopicPartition] | None = None, timeout: float = 5.0
    ) -> None:
        """Commit automatically before partitions go, and wait for it; a failure is logged."""
        if self._is_automatic and (offsets := self._moved(places)):
            try:
                await self.commit(offsets, timeout)
            except EverlogError as error:
                self._committed_automatically(offsets, error)

    async def finish(self) -> None:
        """Wait for all that is under way."""
        await asyncio.gather(*self._later, return_exceptions=True)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._later:
            task.cancel()
        await self.finish()

    def forget(self, places: Collection[TopicPartition]) -> None:
        """These partitions are not ours any more."""
        for place in places:
            self._last.pop(place, None)

    def _moved(self, places: Collection[TopicPartition] | None) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            place: entry
            for place, entry in self.consumed(places).items()
            if self._last.get(place) != entry.offset
        }

    async def _commit_and_tell(self, offsets: Offsets, on_done: OnCommit) -> None:
        failure: EverlogError | None = None
        try:
            await self.commit(offsets)
        except EverlogError as error:
            failure = error
        except asyncio.CancelledError:
            on_done(offsets, Closed("the consumer was closed before the commit was answered"))
            raise
        on_done(offsets, failure)

    def _committed_automatically(self, offsets: Offsets, error: EverlogError | None) -> None:
        if error is not None:
            self.forget(list(offsets))
            _log.warning("offsets were not committed automatically: %s", error)
