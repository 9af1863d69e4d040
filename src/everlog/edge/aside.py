"""Threads for what blocks: fsync, compaction, deletions."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_log = logging.getLogger(__name__)

Result = TypeVar("Result")

_THREADS_TOGETHER = 32
"""Threads for many jobs at once: a disk takes the syncs of many files together in the time of one."""


class ThreadAside:
    """A few threads beside one event loop; results come back to the loop as calls.

    A job may fail with an OSError, which is handed on: disks do fail. Whatever else a job or its `done`
    raises is a bug of ours. It is logged with its traceback and given to `on_bug`, once, on the loop;
    `on_bug` is expected to end the process in good order, for nobody can say what state it is in.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_bug: Callable[[BaseException], None],
        threads: int = 4,
    ) -> None:
        self._loop = loop
        self._on_bug = on_bug
        self._executor = ThreadPoolExecutor(threads, "everlog-aside")
        self._is_closed = False
        self._bug_seen = False

    def run(self, job: Callable[[], Result], done: Callable[[Result | OSError], None]) -> None:
        """Run `job` on a thread, then call `done` on the loop with its result or its OSError.

        Nothing is done after `close`: what the end of one job makes necessary is left to the next start.
        """
        if not self._is_closed:
            self._executor.submit(self._work, job, done)

    def run_together(self, jobs: Sequence[Callable[[], None]]) -> list[OSError | None]:
        """Run jobs side by side, on threads of their own, and return when all have ended; it blocks."""
        if not jobs:
            return []
        with ThreadPoolExecutor(min(_THREADS_TOGETHER, len(jobs)), "everlog-together") as executor:
            return list(executor.map(_failure_of, jobs))

    def close(self) -> None:
        """Wait for the jobs that were handed in; their `done`s are then queued on the loop."""
        self._is_closed = True
        self._executor.shutdown(wait=True)

    def _work(self, job: Callable[[], Result], done: Callable[[Result | OSError], None]) -> None:
        result: Result | OSError
        try:
            result = job()
        except OSError as error:
            result = error
        except BaseException as error:  # noqa: BLE001  # the supervisor of background work: log, then end
            self._call_on_loop(self._bug, error)
            return
        self._call_on_loop(self._finish, done, result)

    def _call_on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop was closed under us: the process is on its way out and nobody waits any more.
            _log.warning("a job ended after the event loop was closed; its result is dropped")

    def _finish(self, done: Callable[[Result | OSError], None], result: Result | OSError) -> None:
        try:
            done(result)
        except Exception as error:  # noqa: BLE001  # as above
            self._bug(error)

    def _bug(self, error: BaseException) -> None:
        _log.critical("work beside the loop failed in a way it must not; shutting down", exc_info=error)
        if not self._bug_seen:
            self._bug_seen = True
            self._on_bug(error)


def _failure_of(job: Callable[[], None]) -> OSError | None:
    try:
        job()
    except OSError as error:
        return error
    return None
