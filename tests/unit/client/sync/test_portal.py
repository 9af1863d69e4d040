"""A loop on a thread of its own, and its end."""

import asyncio

from everlog.client.sync.portal import Portal


def test_a_task_that_the_end_of_another_begins_is_ended_too() -> None:
    portal = Portal("test")
    begun: list[asyncio.Task[None]] = []

    async def wait(then: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            if then:
                begun.append(asyncio.get_running_loop().create_task(wait(then - 1)))

    async def begin() -> None:
        begun.append(asyncio.get_running_loop().create_task(wait(2)))
        await asyncio.sleep(0)

    portal.run(begin())
    portal.close()

    assert [task.cancelled() for task in begun] == [True, True, True]
