"""A program that reads partitions of its choice with the public consumer."""

import asyncio

from everlog.client.aio.consumer import Consumer
from everlog.client.core.consumer.settings import ConsumerOptions
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.sim.chance import SimRandom
from everlog.sim.history import Kind, Outcome
from everlog.sim.workloads.actor import Setting, Topic
from everlog.sim.workloads.client_consuming import passes
from everlog.sim.workloads.client_program import BOOTSTRAP, ClientProgram, as_polled
from everlog.sim.workloads.errands import rack_of


class ReadingProgram(ClientProgram):
    """Follows all partitions of a topic, and now and then begins again somewhere."""

    def __init__(self, name: str, setting: Setting, chance: SimRandom, topic: Topic) -> None:
        super().__init__(name, setting, chance)
        self._topic = topic
        self._places = [TopicPartition(topic.name, index) for index in range(topic.partitions)]
        self._read_committed = chance.happens(70)

    async def run(self) -> None:
        """Read until told to stop, with one consumer after the other."""
        while not self.stopping:
            async with Consumer(BOOTSTRAP, **self._options()) as consumer:
                await consumer.assign(self._places)
                self._note_choice()
                for _ in range(20 + self.chance.below(100)):
                    if self.stopping:
                        break
                    await self._read(consumer)

    def _options(self) -> ConsumerOptions:
        pick = self.chance.pick
        return ConsumerOptions(
            client_id=self.name,
            client_rack=rack_of(self.chance.fork("rack").below(3)),
            auto_offset_reset="earliest",
            isolation_level="read_committed" if self._read_committed else "read_uncommitted",
            max_poll_records=pick((1, 7, 500)),
            max_partition_fetch_bytes=pick((1, 500, 1 << 20)),
            fetch_max_wait_ms=pick((10, 100, 500)),
            request_timeout_ms=pick((300, 1_000, 2_000)),
            retry_backoff_ms=20,
            retry_backoff_max_ms=200,
            socket_connection_setup_timeout_ms=1_000,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=200,
        )

    async def _read(self, consumer: Consumer) -> None:
        place = self.chance.pick(self._places)
        match self.chance.below(60):
            case 0:
                await consumer.seek_to_beginning(place)
                self._note_choice()
            case 1:
                await consumer.seek_to_end(place)
                self._note_choice()
            case 2 | 3:
                await consumer.pause(place)
            case 4 | 5 | 6:
                await consumer.resume()
            case 7 | 8:
                await asyncio.sleep(self.chance.below(500) / 1000)
            case _:
                await self._poll(consumer)

    async def _poll(self, consumer: Consumer) -> None:
        start = self.now()
        try:
            records = await consumer.poll(self.chance.below(200) / 1000)
        except EverlogError as error:
            self.unexpected(error, passes)
            return
        polls = tuple(as_polled(record) for record in records)
        if polls:
            self.note(Kind.POLL, Outcome.OK, start, polls=polls, read_committed=self._read_committed)

    def _note_choice(self) -> None:
        self.note(Kind.ASSIGN, Outcome.OK, self.now(), partitions=self._topic.names())
