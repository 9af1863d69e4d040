"""Transactions by confluent-kafka: money moved between accounts, and a table that is compacted meanwhile."""

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from everlog.sim.chance import SimRandom
from everlog.sim.history import Kind, Outcome, Sent
from everlog.sim.script import Script
from everlog.sim.workloads.actor import Actor, Setting, Topic
from everlog.sim.workloads.content import a_record, digest
from everlog.sim.workloads.reader import Reader
from tests.e2e.workloads.worker import Worker

_kafka: Any = import_module("confluent_kafka")
ACCOUNTS = 5
AT_FIRST = 1_000


class ConfluentTransactor(Actor):
    """A thread that does transactions with confluent-kafka until it is told to stop."""

    def __init__(self, name: str, setting: Setting, chance: SimRandom, bootstrap: str, topic: Topic) -> None:
        super().__init__(name, setting, chance)
        self.topic = topic
        self._bootstrap = bootstrap
        self._worker = Worker(name, self._run)

    def start(self) -> None:
        self._worker.start()

    def join(self, timeout_s: float) -> None:
        """Wait for its end, and raise what it raised."""
        self._worker.join(timeout_s)

    def writes(self) -> list[Sent]:
        """What one transaction writes."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self.stopping:
            self._life()

    def _life(self) -> None:
        """One producer, until something happens that it does not survive."""
        producer: Any = _kafka.Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": 4_000,
                "message.timeout.ms": 3_500,
                "socket.timeout.ms": 2_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        if self._tried(lambda: producer.init_transactions(5)) is not None:
            return
        while not self.stopping:
            if not self._transaction(producer):
                return
            # A few dozen a second: what counts is that some are always under way.
            time.sleep(self.chance.below(20) / 1000)

    def _transaction(self, producer: Any) -> bool:
        """One transaction; False if the producer cannot go on."""
        start = self.now()
        sends = self.writes()
        producer.begin_transaction()
        for sent in sends:
            record = a_record(sent)
            number = int(sent.partition.rpartition("-")[2])
            producer.produce(
                self.topic.name,
                value=record.value,
                key=record.key,
                headers=[(name, content) for name, content in record.headers],
                timestamp=record.timestamp,
                partition=number,
            )
        if self.chance.happens(15):
            error = self._tried(lambda: producer.abort_transaction(5))
            self.note(Kind.TXN, Outcome.FAIL, start, sends=tuple(sends), note="aborted")
            return error is None
        error = self._committed(producer)
        if error is None:
            self.note(Kind.TXN, Outcome.OK, start, sends=tuple(sends))
            return True
        # A commit that failed may have been carried out, whatever is said of it.
        self.note(Kind.TXN, Outcome.INFO, start, sends=tuple(sends), note=str(error)[:80])
        if error.txn_requires_abort():
            return self._tried(lambda: producer.abort_transaction(5)) is None
        return False

    def _committed(self, producer: Any) -> Any:
        error = None
        for _ in range(10):
            error = self._tried(lambda: producer.commit_transaction(2))
            if error is None or not error.retriable():
                return error
        return error

    def _tried(self, action: Callable[[], object]) -> Any:
        """The error of a call, if it has one."""
        try:
            action()
        except _kafka.KafkaException as error:
            return error.args[0]
        return None

    def sent(self, partition: str, key: str, value: str, *, tombstone: bool = False) -> Sent:
        """A record to send, with what its bytes come to."""
        wall = self.setting.wall()
        plain = Sent(partition, value, None, key, tombstone, wall)
        made = a_record(plain)
        return Sent(partition, value, None, key, tombstone, wall, digest(made.key, made.value, made.headers))


class Transfers(ConfluentTransactor):
    """Moves money: what one account loses another wins, in the same transaction."""

    def writes(self) -> list[Sent]:
        amount = 1 + self.chance.below(50)
        giver = self.chance.below(ACCOUNTS)
        taker = (giver + 1 + self.chance.below(ACCOUNTS - 1)) % ACCOUNTS
        partition = self.topic.names()[0]
        # The amount is the last part of the value, which makes it unique as well.
        return [
            self.sent(partition, f"account{giver}", f"{self.value()}:{-amount}"),
            self.sent(partition, f"account{taker}", f"{self.value()}:{amount}"),
        ]


class Table(ConfluentTransactor):
    """Sets and deletes keys, several in one transaction."""

    def writes(self) -> list[Sent]:
        sends: list[Sent] = []
        for _ in range(1 + self.chance.below(3)):
            partition = self.chance.pick(self.topic.names())
            key = f"key{self.chance.below(8)}"
            sends.append(self.sent(partition, key, self.value(), tombstone=self.chance.happens(15)))
        return sends


class Auditor(Reader):
    """Adds up all transfers that are decided, over and over."""

    def audit(self, topic: Topic) -> Script[None]:
        """Read from the start to where nothing is undecided, and note what the accounts have there."""
        positions, amounts = {0: 0}, {f"account{number}": AT_FIRST for number in range(ACCOUNTS)}
        self.note(Kind.ASSIGN, Outcome.OK, self.now(), partitions=topic.names())
        while not self.stopping:
            start = self.now()
            found = yield from self.fetch(topic, positions, read_committed=True)
            if found is None:
                yield from self.pause(100)
                continue
            polls, bounds = found
            self.note(Kind.POLL, Outcome.OK, start, polls=polls, bounds=bounds)
            for polled in polls:
                assert polled.key is not None
                amounts[polled.key] += int(polled.value.rpartition(":")[2])
            if bounds and positions[0] == bounds[0].last_stable_offset:
                self.note(Kind.BALANCES, Outcome.OK, start, amounts=dict(amounts))
            yield from self.pause(50)
