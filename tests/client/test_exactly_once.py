"""P5, C6: consume, transform, produce: each input makes its output exactly once, whatever dies meanwhile."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from everlog.client.core.errors import TransactionError
from everlog.client.sync.consumer import Consumer
from everlog.client.sync.producer import Producer
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord
from tests.client.conftest import topic_maker
from tests.client.log_reading import committed_offset, read_log
from tests.conformance.target import Target

PATIENCE_S = 240.0
INPUTS = 1500
KILLS = 3
PARTITIONS = 3


class Copier:
    """Copies one topic to another in transactions, and starts over as a new process would when it fails.

    Now and then its producer stops in the middle of a transaction and a new one takes over the id; the old
    one comes back later, as a zombie that does not know, and tries to commit.
    """

    def __init__(self, bootstrap: str, number: int, source: str, target: str, group: str) -> None:
        self._thread = threading.Thread(target=self._run, name=f"copier-{number}", daemon=True)
        self._bootstrap = bootstrap
        self._number = number
        self._source, self._target, self._group = source, target, group
        self._turns = 0
        self.stopping = threading.Event()
        self.copied = 0
        self.starts = 0
        self.zombies_refused = 0
        self.errors: Counter[str] = Counter()
        self.crash: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Come to an end, and raise what went wrong."""
        self.stopping.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        if self.crash is not None:
            raise self.crash

    def _run(self) -> None:
        zombie: Producer | None = None
        try:
            while not self.stopping.is_set():
                self.starts += 1
                try:
                    zombie = self._live(zombie)
                except EverlogError as error:
                    self.errors[type(error).__name__] += 1
        except BaseException as error:  # noqa: BLE001 - it is raised again where the test waits
            self.crash = error
        finally:
            if zombie is not None:
                zombie.close(5)

    def _live(self, zombie: Producer | None) -> Producer | None:
        producer = Producer(
            self._bootstrap,
            transactional_id=f"{self._group}-{self._number}",
            max_block_ms=60_000,
            transaction_timeout_ms=30_000,
        )
        is_left = False
        try:
            producer.init_transactions()
            with Consumer(
                self._bootstrap,
                group_id=self._group,
                topics=[self._source],
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                enable_auto_commit=False,
                session_timeout_ms=6000,
                heartbeat_interval_ms=500,
            ) as consumer:
                while not self.stopping.is_set():
                    records = consumer.poll(0.5, max_records=20)
                    if not records:
                        continue
                    self._turns += 1
                    if self._turns % 9 == 0:
                        # Stops in the middle: the next life takes over the id.
                        producer.begin_transaction()
                        self._copy(producer, consumer, records)
                        is_left = True
                        return producer
                    with producer.transaction():
                        self._copy(producer, consumer, records)
                    self.copied += len(records)
                    if zombie is not None:
                        self._revive(zombie)
                        zombie = None
            return None
        finally:
            if zombie is not None:
                zombie.close(5)
            if not is_left:
                producer.close(5)

    def _copy(self, producer: Producer, consumer: Consumer, records: list[ConsumerRecord]) -> None:
        offsets: dict[TopicPartition, int] = {}
        for record in records:
            producer.send(self._target, record.value, key=record.key)
            offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())

    def _revive(self, zombie: Producer) -> None:
        """Have a producer that was taken for dead go on with its transaction; it must not get anywhere."""
        with pytest.raises(TransactionError):
            zombie.commit_transaction()
        self.zombies_refused += 1
        zombie.close(5)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_c6_each_input_makes_one_output_while_brokers_and_producers_die(
    txn_version: int, victim: Target, fresh_topic: Callable[[], str]
) -> None:
    make = topic_maker(victim.bootstrap, fresh_topic)
    source, target, group = make(PARTITIONS), make(PARTITIONS), "copiers"
    copiers = [Copier(victim.bootstrap, number, source, target, group) for number in range(2)]
    for copier in copiers:
        copier.start()
    inputs = [b"%06d" % number for number in range(INPUTS)]

    with Producer(victim.bootstrap, delivery_timeout_ms=300_000) as producer:
        for part in range(KILLS):
            goal = sum(copier.copied for copier in copiers) + 60
            for value in inputs[part * INPUTS // KILLS : (part + 1) * INPUTS // KILLS]:
                producer.send(source, value, key=value)
            _wait(lambda: sum(copier.copied for copier in copiers) >= goal, copiers)  # noqa: B023
            victim.kill()
            victim.start()
        producer.flush(PATIENCE_S)
    ends = Counter(record.partition for record in read_log(victim.bootstrap, source))
    _wait(lambda: _done(victim.bootstrap, group, source, ends), copiers)
    for copier in copiers:
        copier.end()

    found = Counter(record.value for record in read_log(victim.bootstrap, target))
    assert [value for value in inputs if found[value] != 1] == []
    assert sum(found.values()) == INPUTS
    assert sum(copier.zombies_refused for copier in copiers) > 0
    assert sum(copier.starts for copier in copiers) > 4


def _done(bootstrap: str, group: str, source: str, ends: Mapping[int, int]) -> bool:
    """Whether the group has committed the end of every partition."""
    return all(committed_offset(bootstrap, group, source, index) == end for index, end in ends.items())


def _wait(condition: Callable[[], Any], copiers: list[Copier]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        told = [(copier.copied, copier.starts, dict(copier.errors), copier.crash) for copier in copiers]
        assert time.monotonic() < deadline, told
        assert all(copier.crash is None for copier in copiers), told
        time.sleep(0.2)
