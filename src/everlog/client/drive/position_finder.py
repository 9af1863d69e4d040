"""Finds out what positions wait for: committed offsets, offsets of moments, whether logs agree (C5, C7)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from everlog.client.core import surroundings
from everlog.client.core.consumer.list_offsets import LATEST
from everlog.client.core.consumer.positions import PartitionState, Positions, Stage
from everlog.client.core.errors import Unsupported
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.client.drive.link import ClusterLink
from everlog.client.drive.offsets import Told, ask_epoch_ends, ask_offsets
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition

_log = logging.getLogger(__name__)

Committed = Mapping[TopicPartition, OffsetAndMetadata | None]
Lookup = Callable[[Collection[TopicPartition]], Awaitable[Committed]]


class PositionFinder:
    """Works on each stage by itself, again and again until no partition is in it.

    What does not depend on time goes to the application: it becomes the partition's problem.
    """

    def __init__(
        self,
        link: ClusterLink,
        positions: Positions,
        committed: Lookup,
        on_progress: Callable[[set[str]], None],
        *,
        read_committed: bool,
    ) -> None:
        self._link = link
        self._positions = positions
        self._committed = committed
        self._on_progress = on_progress
        """Called when partitions may be read, with the topics whose leaders must be asked for."""
        self._read_committed = read_committed
        self._tasks: dict[Stage, asyncio.Task[None]] = {}
        self._works = {
            Stage.NO_OFFSET: self._find_committed,
            Stage.RESET: self._find_moments,
            Stage.CHECK: self._check_logs,
        }
        self._new_view = asyncio.Event()
        self.trouble: EverlogError | None = None
        """Why the last try failed, if it did."""
        self.crash: BaseException | None = None
        """What ended a task that should not have ended."""

    def kick(self) -> None:
        """Begin with whatever waits."""
        waiting = {state.stage for state in self._positions}
        for stage in self._works:
            running = self._tasks.get(stage)
            if stage in waiting and (running is None or running.done()):
                task = self._tasks[stage] = asyncio.get_running_loop().create_task(self._work(stage))
                task.add_done_callback(self._ended)

    def saw_view(self) -> None:
        """Try at once again what waited for a leader."""
        self._new_view.set()

    async def close(self) -> None:
        """Give up."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _work(self, stage: Stage) -> None:
        backoff = self._link.backoff()
        work = self._works[stage]
        while states := [each for each in self._positions if each.stage is stage and each.problem is None]:
            versions = [state.version for state in states]
            stale: set[str] = set()
            self._new_view.clear()
            try:
                stale = await work(states, versions)
            except EverlogError as error:
                self.trouble = error
                _log.debug("positions: %s", error)
                if not error.retriable:
                    self._fail(states, versions, error)
            self._on_progress(stale)
            if all(
                state.version != version or state.stage is not stage
                for state, version in zip(states, versions, strict=True)
            ):
                backoff.reset()
                continue
            try:
                async with asyncio.timeout(backoff.next_wait_ms(surroundings.chance.random()) / 1000):
                    await self._new_view.wait()
            except TimeoutError:
                pass

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self.crash = task.exception()
            self._on_progress(set())

    async def _find_committed(self, states: Sequence[PartitionState], versions: Sequence[int]) -> set[str]:
        found = await self._committed([state.place for state in states])
        self.trouble = None
        for state, version in zip(states, versions, strict=True):
            committed = found.get(state.place)
            if committed is None:
                self._positions.take_committed(state, version, None, -1)
            else:
                self._positions.take_committed(state, version, committed.offset, committed.leader_epoch)
        return set()

    async def _find_moments(self, states: Sequence[PartitionState], versions: Sequence[int]) -> set[str]:
        told = await self._offsets({state.place: state.reset_to for state in states})
        beyond = {place: LATEST for place, found in told.offsets.items() if found is None}
        if beyond:  # No record is that young: read on from the end.
            ends = await self._offsets(beyond)
            told.offsets.update(ends.offsets)
            told.refused.update(ends.refused)
        for state, version in zip(states, versions, strict=True):
            found = told.offsets.get(state.place)
            if found is not None:
                self._positions.take_reset(state, version, found.offset, -1)
        self._refuse(states, versions, told)
        return {place.topic for place in told.missing([state.place for state in states])}

    async def _offsets(self, wanted: Mapping[TopicPartition, int]) -> Told:
        return await ask_offsets(self._link, wanted, read_committed=self._read_committed)

    async def _check_logs(self, states: Sequence[PartitionState], versions: Sequence[int]) -> set[str]:
        view = self._link.view
        checked = [state.fetch_offset for state in states]
        told = await ask_epoch_ends(self._link, {state.place: state.fetch_epoch for state in states})
        for place, offset in zip((state.place for state in states), checked, strict=True):
            if isinstance(told.refused.get(place), Unsupported):
                told.ends[place] = (
                    offset  # A broker that cannot tell: offsets out of range are noticed anyway.
                )
                del told.refused[place]
        for state, version, offset in zip(states, versions, checked, strict=True):
            if state.place in told.ends:
                known = view.partition(state.place)
                epoch = -1 if known is None else known.leader_epoch
                self._positions.take_epoch_end(state, version, offset, epoch, told.ends[state.place])
        self._refuse(states, versions, told)
        return {place.topic for place in told.missing([state.place for state in states])}

    def _refuse(self, states: Sequence[PartitionState], versions: Sequence[int], told: Told) -> None:
        for state, version in zip(states, versions, strict=True):
            refused = told.refused.get(state.place)
            if refused is not None and state.version == version:
                state.problem = refused
        self.trouble = told.last_error

    def _fail(self, states: Sequence[PartitionState], versions: Sequence[int], error: EverlogError) -> None:
        for state, version in zip(states, versions, strict=True):
            if state.version == version:
                state.problem = error
