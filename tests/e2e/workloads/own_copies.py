"""Read, process, write, exactly once, by Everlog's own clients, each with a consumer and transactions."""

from everlog import Consumer, EverlogError, Producer, TimedOut, TopicPartition
from everlog.records.rows import ConsumerRecord
from everlog.sim.chance import SimRandom
from everlog.sim.history import Kind, Membership, Outcome, Sent
from everlog.sim.workloads.actor import Actor, Setting, Topic
from everlog.sim.workloads.content import a_record
from tests.e2e.workloads.worker import Worker

_COMMITS = 10
"""How often a commit is asked for; after that its outcome stays unknown."""


class OwnCopier(Actor):
    """A thread that copies records from one topic to another."""

    def __init__(
        self,
        name: str,
        setting: Setting,
        chance: SimRandom,
        bootstrap: str,
        route: tuple[str, Topic, Topic],
    ) -> None:
        super().__init__(name, setting, chance)
        self._bootstrap = bootstrap
        self._group, self._source, self._target = route
        self._worker = Worker(name, self._run)

    def start(self) -> None:
        self._worker.start()

    def join(self, timeout_s: float) -> None:
        """Wait for its end, and raise what it raised."""
        self._worker.join(timeout_s)

    def _run(self) -> None:
        while not self.stopping:
            self._life()

    def _life(self) -> None:
        """One consumer and one producer, until something happens that they do not survive."""
        producer = Producer(
            self._bootstrap,
            transactional_id=self.name,
            transaction_timeout_ms=4_000,
            request_timeout_ms=2_000,
            delivery_timeout_ms=3_500,
            max_block_ms=5_000,
            linger_ms=0,
            retry_backoff_ms=20,
            reconnect_backoff_max_ms=100,
        )
        consumer = Consumer(
            self._bootstrap,
            group_id=self._group,
            group_protocol="consumer",
            topics=[self._source.name],
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,
            request_timeout_ms=2_000,
            retry_backoff_ms=20,
            reconnect_backoff_max_ms=100,
        )
        try:
            producer.init_transactions()
            while not self.stopping:
                records = consumer.poll(0.2, max_records=20)
                if records and not self._copy(producer, consumer, records):
                    return
        except EverlogError:
            # Whatever it was: a program would be started again.
            return
        finally:
            consumer.close(2)
            producer.close(2)

    def _copy(self, producer: Producer, consumer: Consumer, records: list[ConsumerRecord]) -> bool:
        """One transaction; False if both must begin anew, from where the group is."""
        start = self.now()
        sends: list[Sent] = []
        offsets: dict[str, int] = {}
        producer.begin_transaction()
        known, note = Outcome.FAIL, ""  # Until a commit is asked for.
        try:
            for record in records:
                source = f"{record.topic}-{record.partition}"
                offsets[source] = record.offset + 1
                sends.append(self._send(producer, record, source))
            places = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
            producer.send_offsets_to_transaction(places, consumer.group_metadata())
            if self.chance.happens(10):
                producer.abort_transaction()
            else:
                known = Outcome.INFO
                self._commit(producer)
                known = Outcome.OK
        except EverlogError as error:
            note = type(error).__name__
        membership = Membership(self._group)
        self.note(
            Kind.TXN, known, start, sends=tuple(sends), membership=membership, offsets=offsets, note=note
        )
        return known is Outcome.OK

    def _send(self, producer: Producer, record: ConsumerRecord, source: str) -> Sent:
        number = record.offset % self._target.partitions
        wall = self.setting.wall()
        sent = Sent(
            self._target.names()[number], self.value(), timestamp=wall, source=f"{source}@{record.offset}"
        )
        made = a_record(sent)
        producer.send(
            self._target.name, made.value, headers=list(made.headers), timestamp=wall, partition=number
        )
        return sent

    def _commit(self, producer: Producer) -> None:
        for left in reversed(range(_COMMITS)):
            try:
                producer.commit_transaction(2)
            except TimedOut:
                if not left:
                    raise
            else:
                return
