"""The consumer on an event loop: the same, awaited (C1, C5, C7)."""

import asyncio
import uuid
from collections.abc import Sequence

import pytest

from everlog import Closed, Misused, RebalanceListener, TopicPartition, Woken
from everlog.aio import Consumer
from everlog.records.rows import ConsumerRecord
from tests.client.conftest import NewTopic
from tests.client.log_writing import write
from tests.client.polling import PATIENCE_S

NUMBERS = [b"%d" % number for number in range(500)]


@pytest.fixture
def topic(bootstrap: str, new_topic: NewTopic) -> str:
    """A topic with five hundred numbers in its one partition."""
    name = new_topic()
    write(bootstrap, name, NUMBERS)
    return name


async def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += await consumer.poll(0.2)
    return found


def test_c1_iteration_reads_everything_in_order(bootstrap: str, topic: str) -> None:
    async def read() -> None:
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([(topic, 0)])
            seen: list[bytes | None] = []
            async with asyncio.timeout(PATIENCE_S):
                async for record in consumer:
                    seen.append(record.value)
                    assert await consumer.position((topic, 0)) == record.offset + 1
                    if len(seen) == 500:
                        break
            assert seen == NUMBERS

    asyncio.run(read())


def test_c7_positions_pauses_and_bounds(bootstrap: str, topic: str) -> None:
    async def read() -> None:
        place = TopicPartition(topic, 0)
        async with Consumer(bootstrap, auto_offset_reset="earliest", max_poll_records=10) as consumer:
            await consumer.assign([place])
            await take(consumer, 10)
            assert await consumer.lag() == {place: 490}
            await consumer.pause(place)
            assert consumer.paused() == {place}
            assert await consumer.poll(0.2) == []
            await consumer.resume(place)
            assert (await take(consumer, 1))[0].offset == 10
            await consumer.seek(place, 400)
            assert (await take(consumer, 1))[0].offset == 400
            await consumer.seek_to_beginning()
            assert await consumer.position(place) == 0
            await consumer.seek_to_end(place)
            assert await consumer.position(place) == 500
            await consumer.seek_to_time(0)
            assert await consumer.position(place) == 0
            assert await consumer.beginning_offsets() == {place: 0}
            assert await consumer.end_offsets() == {place: 500}
            assert topic in await consumer.topics()
            assert [each.index for each in await consumer.partitions_for(topic)] == [0]
            found = await consumer.offsets_for_times({place: 0})
            assert found[place] is not None
            chunks = await consumer.take_chunks(PATIENCE_S)
            assert [record.value for chunk in chunks for record in chunk.records()][:3] == NUMBERS[:3]

    asyncio.run(read())


def test_c5_members_of_a_group_with_a_listener_of_coroutines(bootstrap: str, topic: str) -> None:
    group = f"g-{uuid.uuid4().hex[:12]}"

    async def read() -> None:
        heard: list[str] = []

        class Listener(RebalanceListener):
            async def on_assigned(self, places: Sequence[TopicPartition]) -> None:
                for wrong in (consumer.poll(), consumer.close(), consumer.take_chunks()):
                    with pytest.raises(Misused, match="neither poll nor close"):
                        await wrong
                heard.append("assigned")

            async def on_revoked(self, places: Sequence[TopicPartition]) -> None:
                await consumer.commit()
                heard.append("revoked")

        options = {"auto_offset_reset": "earliest", "max_poll_records": 100, "enable_auto_commit": False}
        async with Consumer(bootstrap, group_id=group, **options) as consumer:  # type: ignore[arg-type]
            await consumer.subscribe([topic], listener=Listener())
            assert len(await take(consumer, 100)) == 100
            assert consumer.assignment() == {(topic, 0)}
            assert consumer.group_metadata().group_id == group
            done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            await consumer.commit_async({(topic, 0): 7}, lambda _, error: done.set_result(error))
            assert await asyncio.wait_for(done, PATIENCE_S) is None
            kept = (await consumer.committed())[TopicPartition(topic, 0)]
            assert kept is not None
            assert kept.offset == 7
        assert heard == ["assigned", "revoked"]
        async with Consumer(bootstrap, group_id=group, topics=topic, **options) as consumer:  # type: ignore[arg-type]
            assert (await take(consumer, 1))[0].offset == 100

    asyncio.run(read())


def test_c1_wakeup_and_close_end_a_poll_that_waits(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()

    async def read() -> None:
        consumer = Consumer(bootstrap)
        with pytest.raises(Misused):
            await consumer.poll(0)
        await consumer.assign([(topic, 0)])
        waiting = asyncio.create_task(consumer.poll(PATIENCE_S * 2))
        await asyncio.sleep(0.05)
        consumer.wakeup()
        with pytest.raises(Woken):
            await waiting
        waiting = asyncio.create_task(consumer.poll(PATIENCE_S * 2))
        await asyncio.sleep(0.05)
        await consumer.close()
        with pytest.raises(Closed):
            await waiting
        with pytest.raises(Closed):
            await consumer.seek((topic, 0), 0)
        assert [record async for record in consumer] == []
        await consumer.close()

    asyncio.run(read())


def test_c1_a_cancelled_poll_loses_nothing(bootstrap: str, topic: str) -> None:
    async def read() -> None:
        async with Consumer(bootstrap, auto_offset_reset="earliest", max_poll_records=3) as consumer:
            await consumer.assign([(topic, 0)])
            seen: list[ConsumerRecord] = []
            for turn in range(200):
                task = asyncio.create_task(consumer.poll(0.5))
                for _ in range(turn % 7):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    seen += await task
                except asyncio.CancelledError:
                    pass
            while len(seen) < 500:
                seen += await take(consumer, 1)
            assert [record.value for record in seen] == NUMBERS

    asyncio.run(read())
