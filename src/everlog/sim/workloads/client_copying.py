"""A program that reads, writes and commits exactly once, with the public clients."""

import asyncio
from dataclasses import replace

from everlog.client.aio.producer import Producer
from everlog.client.core.consumer.settings import ConsumerOptions
from everlog.client.core.errors import Fenced, TimedOut, TransactionError, TransactionFailed
from everlog.client.core.producer.delivery import Delivery
from everlog.client.core.producer.settings import ProducerOptions
from everlog.model.errors import EverlogError
from everlog.records.rows import ConsumerRecord
from everlog.sim.chance import SimRandom
from everlog.sim.history import Kind, Membership, Outcome, Sent
from everlog.sim.workloads.actor import Setting, Topic
from everlog.sim.workloads.client_consuming import GroupProgram, passes, place_of
from everlog.sim.workloads.client_program import BOOTSTRAP
from everlog.sim.workloads.content import a_record, with_digest

_AWAY_MS = 2_500
_COMMITS = 5
"""How often a commit that took too long is asked for again."""


class CopyingProgram(GroupProgram):
    """Writes each record that it reads to another topic, in the transaction that commits its offset."""

    def __init__(
        self,
        name: str,
        setting: Setting,
        chance: SimRandom,
        route: tuple[str, Topic, Topic],
        protocol: str,
        transactional_id: str,
    ) -> None:
        super().__init__(name, setting, chance, route[0], route[1], protocol)
        self.commits_itself = False
        self._target = route[2]
        self._transactional_id = transactional_id
        self._open: tuple[int, list[Sent], Membership, dict[str, int]] | None = None
        """A transaction under way: its start, what it wrote, and for whom it commits which offsets."""
        self._outcome = Outcome.FAIL

    async def consume(self) -> None:
        """Copy for a while."""
        async with Producer(BOOTSTRAP, **self._producer_options()) as producer:
            try:
                await producer.init_transactions()
                for _ in range(10 + self.chance.below(60)):
                    if self.stopping:
                        return
                    records = await self.poll()
                    if records and not await self._copy(producer, records):
                        return
            except TransactionError as error:
                self.unexpected(error, _ends_a_producer)

    def options(self) -> ConsumerOptions:
        """The settings of the next consumer: what one poll returns goes into one transaction."""
        return {
            **super().options(),
            "enable_auto_commit": False,
            "max_poll_records": self.chance.pick((1, 8)),
        }

    def _producer_options(self) -> ProducerOptions:
        pick = self.chance.pick
        request_timeout_ms = pick((300, 1_000))
        return ProducerOptions(
            client_id=self.name,
            transactional_id=self._transactional_id,
            transaction_timeout_ms=pick((800, 4_000)),
            linger_ms=pick((0, 5)),
            batch_size=pick((1, 16_384)),
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_ms=request_timeout_ms + pick((100, 1_500)),
            max_block_ms=3_000,
            retry_backoff_ms=20,
            retry_backoff_max_ms=200,
            socket_connection_setup_timeout_ms=1_000,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=200,
        )

    def give_up(self) -> None:
        """Note what is under way."""
        super().give_up()
        self._note_transaction("given up")

    async def _copy(self, producer: Producer, records: list[ConsumerRecord]) -> bool:
        """One transaction; False if both clients must begin anew, from where the group is."""
        await producer.begin_transaction()
        sends: list[Sent] = []
        offsets: dict[str, int] = {}
        self._begin(sends, offsets)
        note = ""
        try:
            deliveries = [await self._send(producer, record, sends) for record in records]
            offsets |= {f"{record.topic}-{record.partition}": record.offset + 1 for record in records}
            await self._end(producer, offsets)
            for number, delivery in enumerate(deliveries if self._outcome is Outcome.OK else ()):
                sends[number] = replace(sends[number], offset=(await delivery).offset)
        except EverlogError as error:
            note = f"{type(error).__name__}: {error}"
            self.unexpected(error, lambda each: passes(each) or _ends_a_producer(each))
        known = self._outcome
        self._note_transaction(note)
        if known is Outcome.FAIL and not note:
            return await self._rewind()
        return known is Outcome.OK

    def _begin(self, sends: list[Sent], offsets: dict[str, int]) -> None:
        self._open = self.now(), sends, self.membership(), offsets
        # Until a commit is asked for, nobody can bring it about.
        self._outcome = Outcome.FAIL

    async def _send(self, producer: Producer, record: ConsumerRecord, sends: list[Sent]) -> Delivery:
        number = record.offset % self._target.partitions
        source = f"{record.topic}-{record.partition}@{record.offset}"
        sent = with_digest(self._target.names()[number], self.value(), self.setting.wall(), source=source)
        sends.append(sent)
        made = a_record(sent)
        return await producer.send(
            self._target.name,
            made.value,
            made.key,
            partition=number,
            headers=made.headers,
            timestamp=sent.timestamp,
        )

    async def _end(self, producer: Producer, offsets: dict[str, int]) -> None:
        places = {place_of(name): offset for name, offset in offsets.items()}
        if self.chance.happens(8):
            # The group goes on without us, and must not take this from us then.
            await asyncio.sleep(self.chance.below(_AWAY_MS) / 1000)
        await producer.send_offsets_to_transaction(places, self.consumer.group_metadata())
        if self.chance.happens(15):
            await producer.abort_transaction()
            return
        self._outcome = Outcome.INFO
        for left in reversed(range(_COMMITS)):
            try:
                await producer.commit_transaction(1)
            except TimedOut:
                if not left:
                    raise
            else:
                self._outcome = Outcome.OK
                return

    async def _rewind(self) -> bool:
        """Go back to where the group is, after an abort; False if that is not to be had."""
        held = [place_of(name) for name in sorted(self.held)]
        try:
            for place, at in (await self.consumer.committed(*held)).items() if held else ():
                await self.consumer.seek(place, 0 if at is None else at.offset)
        except EverlogError as error:
            self.unexpected(error, passes)
            return False
        self.note(Kind.ASSIGN, Outcome.OK, self.now(), partitions=self.topic.names())
        return True

    def _note_transaction(self, note: str) -> None:
        if self._open is not None:
            start, sends, membership, offsets = self._open
            self._open = None
            self.note(
                Kind.TXN,
                self._outcome,
                start,
                sends=tuple(sends),
                membership=membership,
                offsets=offsets,
                note=note,
            )


def _ends_a_producer(error: EverlogError) -> bool:
    """Whether a transaction that took too long, or a group that went on, explains an error."""
    return isinstance(error, TransactionFailed | Fenced | TimedOut)
