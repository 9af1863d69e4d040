"""A loop on a thread of its own, and the way there and back for calls that block.

While a caller waits it can be asked to run something: a rebalance listener is called on the thread that
polls, as its author expects, though it is the loop that needs the outcome.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, TypeVar

from everlog.client.core.errors import Closed, Misused
from everlog.edge.loop_threads import end_at_exit, new_event_loop

Result = TypeVar("Result")

_Item = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]

_inbox_of_task: ContextVar["SimpleQueue[_Item | None]"] = ContextVar("inbox")

START_PATIENCE_S = 30.0

END_ROUNDS = 5
"""How often tasks are ended: the end of one may begin another, as a lost connection asks for metadata."""


class Portal:
    """Runs coroutines on its own loop and thread. Any thread may call; `close` ends the thread."""

    def __init__(self, name: str) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: dict[concurrent.futures.Future[Any], None] = {}
        """Those under way, on whichever thread."""
        self._why_lost: str | None = None
        """Why there is no such thread, in a process that was forked."""
        self._kept: object = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        if not self._ready.wait(START_PATIENCE_S):
            raise Closed(f"the thread {name!r} did not start within {START_PATIENCE_S:g} s")
        end_at_exit(self)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; Closed after `close`, and in another process."""
        if self._why_lost is not None:
            raise Closed(self._why_lost)
        if self._loop is None:
            raise Closed("this client is closed")
        return self._loop

    @property
    def thread_ident(self) -> int:
        """The thread of the loop, as `threading.get_ident` tells it; what blocks must not be called on it."""
        assert self._thread.ident is not None, self._thread
        return self._thread.ident

    @property
    def is_lost(self) -> bool:
        """Whether the thread is another process's, of which this one is a fork."""
        return self._why_lost is not None

    def check(self) -> None:
        """Closed in another process; Misused on the thread of the loop, which cannot wait for itself."""
        if self._why_lost is not None:
            raise Closed(self._why_lost)
        if threading.current_thread() is self._thread:
            raise Misused(
                "a call that waits, on the network thread, for which it would wait: what runs there, such as "
                "a delivery callback, may not wait, nor close the client"
            )

    def inherited(self, why: str, client: object) -> None:
        """This is another process now: take no more calls. The client is kept as long as the process lives.

        The frames of a thread that was not copied are never let go of, and they hold this.
        """
        self._why_lost = why
        self._kept = client

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and wait for it. A KeyboardInterrupt meanwhile cancels it.

        Closed if the portal is closed meanwhile.
        """
        inbox: SimpleQueue[_Item | None] = SimpleQueue()

        async def carry_out() -> Result:
            _inbox_of_task.set(inbox)
            return await work

        try:
            self.check()
            loop = self.loop
            future = asyncio.run_coroutine_threadsafe(carry_out(), loop)
        except BaseException as error:
            work.close()
            if isinstance(error, RuntimeError) and self._loop is None:
                raise Closed("this client is closed") from None
            raise
        future.add_done_callback(lambda _: inbox.put(None))
        self._calls[future] = None
        if self._loop is None:
            future.cancel()  # Closed meanwhile, so that the loop may never see it.
        try:
            while (item := inbox.get()) is not None:
                _carry_out_here(item)
        except BaseException:
            future.cancel()
            raise
        finally:
            del self._calls[future]
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Closed("this client was closed meanwhile") from None

    def tell(self, action: Callable[[], object]) -> None:
        """Have the loop call this soon; do not wait."""
        self.loop.call_soon_threadsafe(action)

    def close(self) -> None:
        """Stop the loop and end the thread; what runs is cancelled. Closing twice is harmless."""
        if self._loop is not None:
            self.ask_to_end()
            self.wait_until_ended()

    def ask_to_end(self) -> None:
        """Stop the loop, and do not wait for it."""
        if self._loop is not None:
            loop, self._loop = self._loop, None
            loop.call_soon_threadsafe(loop.stop)

    def wait_until_ended(self, timeout: float | None = None) -> None:
        """Wait for the end of the thread, and end the calls that it leaves."""
        self._thread.join(timeout)
        for left in list(self._calls):
            left.cancel()

    def _run(self) -> None:
        loop = new_event_loop()
        self._loop = loop
        loop.call_soon(self._ready.set)
        try:
            loop.run_forever()
            _end_tasks(loop)
        finally:
            loop.close()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    # Looked for while nothing runs, so that none begins between the last look and the end of the loop.
    for _ in range(END_ROUNDS):
        left = asyncio.all_tasks(loop)
        if not left:
            return
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


async def call_back(action: Callable[[], Result]) -> Result:
    """Run a user's function on the thread that waits for the current task, if one does; else right here."""
    inbox = _inbox_of_task.get(None)
    if inbox is None:
        return action()
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def report(result: Any, error: BaseException | None) -> None:
        with suppress(RuntimeError):  # The loop is closed: nobody waits for it any more.
            loop.call_soon_threadsafe(_settle, outcome, result, error)

    inbox.put((action, report))
    return await outcome


def _carry_out_here(item: _Item) -> None:
    action, report = item
    try:
        result = action()
    except Exception as error:  # noqa: BLE001 - it is raised where the loop waits for it
        report(None, error)
    except BaseException:
        # It is this thread's own. A KeyboardInterrupt or SystemExit in one of its tasks would end the loop,
        # and with it the client, which has yet to be closed.
        report(None, asyncio.CancelledError())
        raise
    else:
        report(result, None)


def _settle(outcome: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if outcome.done():
        return
    if error is None:
        outcome.set_result(result)
    else:
        outcome.set_exception(error)
