"""An asyncio consumer in a loop: records at hand come quickly, and what happens meanwhile counts (C1, C7)."""

import asyncio

from everlog import Woken
from everlog.aio import Consumer
from tests.client.conftest import NewTopic
from tests.client.log_writing import write

COUNT = 3000


async def _go_over(bootstrap: str, topic: str) -> None:
    seen: list[int] = []
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([(topic, 0)])
        async for record in consumer:
            seen.append(record.offset)
            if record.offset % 700 == 0:
                assert await consumer.position((topic, 0)) == record.offset + 1
            if len(seen) == 6:
                await consumer.seek((topic, 0), 2000)
            if record.offset == 2002 and len(seen) == 9:
                await consumer.seek((topic, 0), 6)
            if len(seen) == 20:
                assert [each.offset for each in await consumer.poll(10, 2)] == [17, 18]
            if record.offset == COUNT - 1:
                break
        assert consumer.metrics()["records_polled"] == len(seen) + 2
    assert seen == [*range(6), 2000, 2001, 2002, *range(6, 17), *range(19, COUNT)]


def test_c1_a_loop_sees_every_record_and_every_seek(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    write(bootstrap, topic, [b"%d" % number for number in range(COUNT)])
    asyncio.run(_go_over(bootstrap, topic))


async def _end(bootstrap: str, topic: str) -> tuple[int, int]:
    woken = closed = 0
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([(topic, 0)])
        try:
            async for _ in consumer:
                woken += 1
                if woken == 10:
                    consumer.wakeup()
        except Woken:
            pass
        async for _ in consumer:
            closed += 1
            if closed == 10:
                await consumer.close()
    return woken, closed


def test_c1_a_wakeup_and_a_close_end_a_loop_that_has_records(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    write(bootstrap, topic, [b"%d" % number for number in range(COUNT)])

    assert asyncio.run(_end(bootstrap, topic)) == (10, 10)
