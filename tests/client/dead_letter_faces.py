"""DeadLetters of both faces behind one: a consumer, a producer and what handles the records of a topic."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Literal, Protocol

import everlog
from everlog import aio
from everlog.client.core.dead_letters import DeadLetterOptions, Handled

Face = Literal["blocking", "asyncio"]
FACES: tuple[Face, ...] = ("blocking", "asyncio")
PATIENCE_S = 60.0

Handler = Callable[[everlog.ConsumerRecord], Coroutine[Any, Any, None]]
"""Written once: the blocking face carries it out on the spot."""


class Worker(Protocol):
    """Handles the records of one topic."""

    def handle_all(self, handler: Handler, count: int) -> Handled:
        """Poll until so many records were handled or given up."""
        ...

    def run(self, handler: Handler, idle_timeout: float | None = None) -> Handled: ...

    def stop(self) -> None: ...

    async def send(self, topic: str, value: Any) -> None:
        """Send with the producer that the letters go by."""
        ...

    async def flush(self) -> None:
        """Have all that was sent delivered."""
        ...


@contextmanager
def open_worker(
    face: Face,
    bootstrap: str,
    topic: str,
    group_id: str,
    options: DeadLetterOptions | None = None,
    *,
    transactional_id: str | None = None,
    linger_ms: int = 5,
) -> Generator[Worker]:
    """A worker with clients of its own; the options are those of DeadLetters."""
    given: DeadLetterOptions = options or {}
    reading: dict[str, Any] = {
        "topics": [topic],
        "group_id": group_id,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_uncommitted" if transactional_id is None else "read_committed",
    }
    if face == "blocking":
        with (
            everlog.Producer(bootstrap, transactional_id=transactional_id, linger_ms=linger_ms) as producer,
            everlog.Consumer(bootstrap, **reading) as consumer,
        ):
            if transactional_id is not None:
                producer.init_transactions()
            yield _Blocking(everlog.DeadLetters(consumer, producer, **given), consumer, producer)
        return
    with asyncio.Runner() as runner:
        clients = AsyncExitStack()

        async def begin() -> _OnALoop:
            out = await clients.enter_async_context(
                aio.Producer(bootstrap, transactional_id=transactional_id, linger_ms=linger_ms)
            )
            consumer = await clients.enter_async_context(aio.Consumer(bootstrap, **reading))
            if transactional_id is not None:
                await out.init_transactions()
            return _OnALoop(aio.DeadLetters(consumer, out, **given), consumer, out, runner)

        try:
            yield runner.run(begin())
        finally:
            runner.run(clients.aclose())


class _Blocking:
    def __init__(
        self, letters: everlog.DeadLetters, consumer: everlog.Consumer, producer: everlog.Producer
    ) -> None:
        self._letters = letters
        self._consumer = consumer
        self._producer = producer
        self.stop = letters.stop

    def handle_all(self, handler: Handler, count: int) -> Handled:
        done = Handled()
        while done.handled + done.dead < count:
            done += self._letters.process(self._consumer.poll(PATIENCE_S), lambda one: _now(handler(one)))
        return done

    def run(self, handler: Handler, idle_timeout: float | None = None) -> Handled:
        return self._letters.run(lambda one: _now(handler(one)), idle_timeout=idle_timeout)

    async def send(self, topic: str, value: Any) -> None:
        self._producer.send(topic, value)

    async def flush(self) -> None:
        self._producer.flush(PATIENCE_S)


class _OnALoop:
    def __init__(
        self, letters: aio.DeadLetters, consumer: aio.Consumer, producer: aio.Producer, runner: asyncio.Runner
    ) -> None:
        self._letters = letters
        self._consumer = consumer
        self._producer = producer
        self._runner = runner
        self.stop = letters.stop

    def handle_all(self, handler: Handler, count: int) -> Handled:
        async def work() -> Handled:
            done = Handled()
            while done.handled + done.dead < count:
                done += await self._letters.process(await self._consumer.poll(PATIENCE_S), handler)
            return done

        return self._runner.run(work())

    def run(self, handler: Handler, idle_timeout: float | None = None) -> Handled:
        return self._runner.run(self._letters.run(handler, idle_timeout=idle_timeout))

    async def send(self, topic: str, value: Any) -> None:
        await self._producer.send(topic, value)

    async def flush(self) -> None:
        await self._producer.flush(PATIENCE_S)


def _now(work: Coroutine[Any, Any, None]) -> None:
    """Carry out a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("a handler of the blocking face waited for a loop")
