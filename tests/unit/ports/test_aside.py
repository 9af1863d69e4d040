"""What every place for blocking work promises, threads or a simulated queue."""

import asyncio
import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from everlog.edge.aside import ThreadAside
from everlog.ports.aside import Aside
from everlog.sim.aside import SimAside


@dataclass
class Bench:
    """An Aside, and the way to let it finish all that it was given."""

    aside: Aside
    settle: Callable[[], None]


def fail(error: BaseException) -> None:
    raise AssertionError("the aside met a bug") from error


@pytest.fixture(params=["real", "simulated"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "simulated":
        aside = SimAside()
        yield Bench(aside, aside.run_all)
        return
    loop = asyncio.new_event_loop()
    threads = ThreadAside(loop, on_bug=fail)

    def settle() -> None:
        threads.close()
        loop.call_soon(loop.stop)
        loop.run_forever()

    yield Bench(threads, settle)
    loop.close()


def test_a_result_comes_back_but_not_before_run_has_returned(bench: Bench) -> None:
    got: list[object] = []

    bench.aside.run(lambda: 6 * 7, got.append)

    assert got == []
    bench.settle()
    assert got == [42]


def test_an_os_error_is_a_result(bench: Bench) -> None:
    got: list[object] = []

    def job() -> int:
        raise OSError(errno.EIO, "the disk is gone")

    bench.aside.run(job, got.append)
    bench.settle()

    assert [(type(error), getattr(error, "errno", None)) for error in got] == [(OSError, errno.EIO)]


def test_all_jobs_are_done_each_once(bench: Bench) -> None:
    got: list[int | OSError] = []

    for n in range(200):
        bench.aside.run(partial(abs, n), got.append)
    bench.settle()

    assert sorted(n for n in got if isinstance(n, int)) == list(range(200))


def test_a_bug_in_a_job_or_in_its_done_is_told_once_and_is_loud(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    bugs: list[BaseException] = []
    threads = ThreadAside(loop, on_bug=bugs.append)
    got: list[object] = []

    def broken() -> int:
        raise ValueError("a bug in a job")

    def broken_done(result: object) -> None:
        raise KeyError("a bug in a done")

    threads.run(broken, got.append)
    threads.run(lambda: 1, broken_done)
    threads.run(lambda: 2, got.append)
    threads.close()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()

    assert got == [2]
    assert len(bugs) == 1
    assert isinstance(bugs[0], ValueError | KeyError)
    assert [record.levelname for record in caplog.records] == ["CRITICAL", "CRITICAL"]


def test_a_job_that_outlives_the_loop_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    threads = ThreadAside(loop, on_bug=fail)
    loop.close()

    threads.run(lambda: 1, lambda result: None)
    threads.close()

    assert "after the event loop was closed" in caplog.text


def test_what_is_handed_in_after_the_end_is_left(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    threads = ThreadAside(loop, on_bug=fail)
    got: list[object] = []

    def first_done(result: object) -> None:
        got.append(result)
        threads.run(lambda: 2, got.append)

    threads.run(lambda: 1, first_done)
    threads.close()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()

    assert got == [1]
    assert caplog.records == []
