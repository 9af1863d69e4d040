"""A loop on a thread of its own, and the way there and back for calls that block.

While a caller waits it can be asked to run something: a rebalance listener is called on the thread that
polls, as its author expects, though it is the loop that needs the outcome.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, TypeVar

from everlog.client.core.errors import Closed

Result = TypeVar("Result")

_Item = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]

_inbox_of_task: ContextVar["SimpleQueue[_Item | None]"] = ContextVar("inbox")

START_PATIENCE_S = 30.0


class Portal:
    """Runs coroutines on its own loop and thread. Any thread may call; `close` ends the thread."""

    def __init__(self, name: str) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        if not self._ready.wait(START_PATIENCE_S):
            raise Closed(f"the thread {name!r} did not start within {START_PATIENCE_S:g} s")

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; Closed after `close`."""
        if self._loop is None:
            raise Closed("this client is closed")
        return self._loop

    @property
    def thread(self) -> threading.Thread:
        """The thread of the loop; what blocks must not be called on it."""
        return self._thread

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and wait for it. A KeyboardInterrupt meanwhile cancels it."""
        assert threading.current_thread() is not self._thread, (
            "a callback on the network thread may not block"
        )
        inbox: SimpleQueue[_Item | None] = SimpleQueue()

        async def carry_out() -> Result:
            _inbox_of_task.set(inbox)
            return await work

        try:
            loop = self.loop
            future = asyncio.run_coroutine_threadsafe(carry_out(), loop)
        except BaseException:
            work.close()
            raise
        future.add_done_callback(lambda _: inbox.put(None))
        try:
            while (item := inbox.get()) is not None:
                _carry_out_here(item)
        except BaseException:
            future.cancel()
            raise
        return future.result()

    def tell(self, action: Callable[[], object]) -> None:
        """Have the loop call this soon; do not wait."""
        self.loop.call_soon_threadsafe(action)

    def close(self) -> None:
        """Stop the loop and end the thread. Closing twice is harmless."""
        if self._loop is not None:
            loop, self._loop = self._loop, None
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()

    def _run(self) -> None:
        loop = _new_loop()
        self._loop = loop
        loop.call_soon(self._ready.set)
        try:
            loop.run_forever()
            loop.run_until_complete(_end_tasks())
        finally:
            loop.close()


async def _end_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def call_back(action: Callable[[], Result]) -> Result:
    """Run a user's function on the thread that waits for the current task, if one does; else right here."""
    inbox = _inbox_of_task.get(None)
    if inbox is None:
        return action()
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def report(result: Any, error: BaseException | None) -> None:
        loop.call_soon_threadsafe(_settle, outcome, result, error)

    inbox.put((action, report))
    return await outcome


def _carry_out_here(item: _Item) -> None:
    action, report = item
    try:
        result = action()
    except BaseException as error:  # noqa: BLE001 - it is raised where the loop waits for it
        report(None, error)
    else:
        report(result, None)


def _settle(outcome: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if outcome.done():
        return
    if error is None:
        outcome.set_result(result)
    else:
        outcome.set_exception(error)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
