"""Members of a group on one event loop: each polls by itself, and keeps what it saw and was told."""

import asyncio
import functools
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

from everlog import EverlogError, TopicPartition
from everlog.aio import Consumer

Given = ParamSpec("Given")

PATIENCE_S = 60.0

WAYS: dict[str, dict[str, Any]] = {
    "range": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
"""How groups share partitions: eagerly, cooperatively, by the broker."""


def on_a_loop(test: Callable[Given, Coroutine[Any, Any, None]]) -> Callable[Given, None]:
    """Run a test that is a coroutine."""

    @functools.wraps(test)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def a_group() -> str:
    """The name of a group that nobody else uses."""
    return f"g-{uuid.uuid4().hex[:12]}"


class Reader:
    """One member. It polls from `start` on, until it is stopped or dies."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str] | None, **options: Any) -> None:
        given: dict[str, Any] = {
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 45_000,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 100,
            **options,
        }
        self._topics = topics
        self._pattern: str | None = given.pop("pattern", None)
        self.consumer = Consumer(bootstrap, group_id=group, **given)
        self.events: list[tuple[str, frozenset[int]]] = []
        """`revoked`, `lost` and `assigned`, with the partitions' numbers."""
        self.values: list[bytes] = []
        self.error: EverlogError | None = None
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        self._is_idle = asyncio.Event()
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    def on_revoked(self, places: Sequence[TopicPartition]) -> None:
        self.events.append(("revoked", frozenset(place.partition for place in places)))

    def on_lost(self, places: Sequence[TopicPartition]) -> None:
        self.events.append(("lost", frozenset(place.partition for place in places)))

    def on_assigned(self, places: Sequence[TopicPartition]) -> None:
        self.events.append(("assigned", frozenset(place.partition for place in places)))

    @property
    def has(self) -> frozenset[int]:
        """The partitions that it has now, of whatever topic."""
        return frozenset(place.partition for place in self.consumer.assignment())

    async def start(self) -> "Reader":
        await self.consumer.subscribe(self._topics, pattern=self._pattern, listener=self)
        self._task = asyncio.create_task(self._run())
        return self

    async def _run(self) -> None:
        while not self._is_over:
            if not self._goes_on.is_set():
                self._is_idle.set()
                await self._goes_on.wait()
                continue
            try:
                self.values += [record.value for record in await self.consumer.poll(0.05)]
            except EverlogError as error:
                self.error = error
                return

    async def idle(self) -> None:
        """Poll no more, as an application that is busy."""
        self._goes_on.clear()
        await self._is_idle.wait()

    def go_on(self) -> None:
        """Poll again."""
        self._is_idle.clear()
        self._goes_on.set()

    async def stop(self) -> None:
        """Close the consumer, as a program that ends."""
        await self._end()
        await self.consumer.close()

    async def die(self) -> None:
        """End as a machine does that loses its power: nothing is said."""
        await self._end()
        await self.consumer.reading.link.close()

    async def _end(self) -> None:
        self._is_over = True
        self._goes_on.set()
        if self._task is not None:
            await self._task
            self._task = None


class Readers:
    """The members of a test; those that are left are stopped in the end."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.group = group
        self._bootstrap = bootstrap
        self._all: list[Reader] = []

    async def join(self, *topics: str, **options: Any) -> Reader:
        reader = Reader(self._bootstrap, self.group, list(topics) or None, **options)
        self._all.append(reader)
        return await reader.start()

    async def stop(self) -> None:
        for reader in self._all:
            await reader.stop()


@asynccontextmanager
async def members(bootstrap: str) -> AsyncGenerator[Readers]:
    """A group of its own."""
    readers = Readers(bootstrap, a_group())
    try:
        yield readers
    finally:
        await readers.stop()


async def until(condition: Callable[[], object], *readers: Reader) -> None:
    """Wait until something is so; the members say what they have if it never is."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                for reader in readers:
                    if reader.error is not None:
                        raise reader.error
                await asyncio.sleep(0.02)
    except TimeoutError:
        said = [(sorted(reader.has), reader.events) for reader in readers]
        raise AssertionError(f"it did not come about in {PATIENCE_S} s: {said}") from None


def shared(count: int, *readers: Reader) -> bool:
    """Whether so many partitions are shared out evenly."""
    sizes = [len(reader.has) for reader in readers]
    everything = [partition for reader in readers for partition in reader.has]
    return sorted(everything) == list(range(count)) and max(sizes) - min(sizes) <= 1
