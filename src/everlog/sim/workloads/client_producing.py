"""A program that sends records with the public producer."""

import asyncio
from dataclasses import replace

from everlog.client.aio.producer import Producer
from everlog.client.core.errors import Closed, TimedOut, Unreachable
from everlog.client.core.producer.delivery import Delivery
from everlog.client.core.producer.partitioner import partition_of_key
from everlog.client.core.producer.record_metadata import RecordMetadata
from everlog.client.core.producer.settings import ProducerOptions
from everlog.model.errors import EverlogError
from everlog.sim.chance import SimRandom
from everlog.sim.history import Kind, Outcome, Sent
from everlog.sim.workloads.actor import Setting, Topic
from everlog.sim.workloads.client_program import BOOTSTRAP, ClientProgram
from everlog.sim.workloads.content import a_record, with_digest

_HEALING_MS = 4_000
"""After which what was on its way when all was healed has been answered or given up."""


class ProducingProgram(ClientProgram):
    """Sends to all partitions, each record once, and believes what it is told of them."""

    def __init__(self, name: str, setting: Setting, chance: SimRandom, topic: Topic) -> None:
        super().__init__(name, setting, chance)
        self._topic = topic
        self._waiting: dict[str, tuple[int, Sent]] = {}
        """Records of which nothing was heard yet, by value, and since when."""

    async def run(self) -> None:
        """Send until told to stop, with one producer after the other."""
        while not self.stopping:
            async with Producer(BOOTSTRAP, **self._options()) as producer:
                await self._send_some(producer)
                if self.stopping:
                    await self._send_last(producer)
            if self._waiting:
                self.complain(f"{len(self._waiting)} deliveries are open after closing")
                self.give_up()

    def give_up(self) -> None:
        """Note what was not heard of."""
        for start, sent in self._waiting.values():
            self.note(Kind.SEND, Outcome.INFO, start, sends=(sent,), note="given up")
        self._waiting.clear()

    def _options(self) -> ProducerOptions:
        pick = self.chance.pick
        request_timeout_ms = pick((300, 1_000, 2_000))
        return ProducerOptions(
            client_id=self.name,
            linger_ms=pick((0, 5, 30)),
            batch_size=pick((1, 300, 16_384)),
            max_in_flight_requests_per_connection=pick((1, 5, 5)),
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_ms=request_timeout_ms + pick((100, 2_000, 8_000)),
            max_block_ms=3_000,
            retry_backoff_ms=20,
            retry_backoff_max_ms=200,
            socket_connection_setup_timeout_ms=1_000,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=200,
            compression_type=pick(("none", "gzip", "zstd")),
        )

    async def _send_some(self, producer: Producer) -> None:
        for _ in range(20 + self.chance.below(200)):
            if self.stopping:
                return
            for _ in range(1 + self.chance.below(6)):
                await self._send(producer)
            if self.chance.happens(10):
                try:
                    await producer.flush(2)
                except TimedOut:
                    pass
            await asyncio.sleep(self.chance.below(30) / 1000)

    async def _send_last(self, producer: Producer) -> None:
        """Send to each partition once all is healed: whatever went wrong before, it must go on."""
        await asyncio.sleep(_HEALING_MS / 1000)
        deliveries = [await self._send(producer, index) for index in range(self._topic.partitions)]
        for delivery in deliveries:
            try:
                if delivery is not None:
                    await delivery
            except EverlogError as error:
                self.complain(f"cannot go on after all was healed: {error}")

    async def _send(self, producer: Producer, index: int | None = None) -> Delivery | None:
        key = f"k{self.chance.below(5)}"
        by_key = index is None and self.chance.happens(50)
        count = self._topic.partitions
        if index is None:
            index = partition_of_key(key.encode(), count) if by_key else self.chance.below(count)
        sent = with_digest(self._topic.names()[index], self.value(), self.setting.wall(), key)
        made = a_record(sent)
        await asyncio.sleep(0)  # A step of the world, so that histories know which was sent first.
        start = self.now()
        self._waiting[sent.value] = (start, sent)
        try:
            return await producer.send(
                self._topic.name,
                made.value,
                made.key,
                partition=None if by_key else index,
                headers=made.headers,
                timestamp=sent.timestamp,
                on_delivery=lambda metadata, error: self._settled(sent.value, metadata, error),
            )
        except EverlogError as error:
            # It was not taken.
            del self._waiting[sent.value]
            self.note(Kind.SEND, Outcome.FAIL, start, sends=(sent,), note=str(error))
            self.unexpected(error, lambda each: isinstance(each, TimedOut))
            return None

    def _settled(self, value: str, metadata: RecordMetadata | None, error: EverlogError | None) -> None:
        if self.is_gone:
            return
        start, sent = self._waiting.pop(value)
        if metadata is None:
            assert error is not None
            self.note(Kind.SEND, Outcome.INFO, start, sends=(sent,), note=str(error))
            self.unexpected(error, lambda each: isinstance(each, TimedOut | Unreachable | Closed))
            return
        if f"{metadata.topic}-{metadata.partition}" != sent.partition:
            self.complain(f"{sent} went to {metadata}")
        offset = metadata.offset if metadata.offset >= 0 else None
        self.note(Kind.SEND, Outcome.OK, start, sends=(replace(sent, offset=offset),))
