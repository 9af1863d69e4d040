"""confluent-kafka as a driver."""

import threading
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from tests.conformance.clients.served.serve import Found, PollThread, Sightings, Tally, serve_client
from tests.conformance.clients.served.stream import Stream

_kafka: Any = import_module("confluent_kafka")
_admin: Any = import_module("confluent_kafka.admin")
_TopicPartition: Any = _kafka.TopicPartition
_TIMEOUT_S = 20.0
_STREAM_END_S = 90.0
_RETRY = {"reconnect.backoff.max.ms": 500}
_STRATEGIES = {"eager": "range", "cooperative": "cooperative-sticky"}


class Member:
    """One consumer."""

    def __init__(self, bootstrap: str, terms: dict[str, Any]) -> None:
        self.sightings = Sightings()
        self._commit_each = terms["commit"] == "each"
        self._async_done = threading.Event()
        self._async_error: Any = None
        self._consumer: Any = _kafka.Consumer(_settings(bootstrap, terms, self._on_commit))
        wanted = [f"^{terms['pattern']}"] if terms["pattern"] else terms["topics"]
        self._consumer.subscribe(
            wanted, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        self._thread = PollThread(self._poll, self._consumer.close)

    def _on_assign(self, _: Any, partitions: Any) -> None:
        self.sightings.assigned(_pairs(partitions))

    def _on_revoke(self, _: Any, partitions: Any) -> None:
        if self._commit_each:
            self._commit_quietly()
        self.sightings.revoked(_pairs(partitions))

    def _on_lost(self, _: Any, partitions: Any) -> None:
        self.sightings.revoked(_pairs(partitions), "lost")

    def _poll(self) -> None:
        try:
            got = self._consumer.consume(100, 0.1)
        except _kafka.KafkaException as error:
            self.sightings.failed(_code(error.args[0]), str(error))
            return
        records = [message for message in got if message.error() is None]
        for message in got:
            if (refusal := message.error()) is not None:
                self.sightings.failed(_code(refusal), refusal.str())
        for message in records:
            self.sightings.record(message.topic(), message.partition(), message.offset(), message.value())
        if records and self._commit_each:
            self._commit_quietly()

    def _commit_quietly(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except _kafka.KafkaException:
            pass  # Nothing to commit, or a rebalance got ahead of us; the next commit covers it.

    def commit(self, offsets: list[list[Any]] | None, asynchronous: bool) -> None:
        """Commit in the poll thread; wait for the callback of an asynchronous one."""
        given: dict[str, Any] = {}
        if offsets is not None:
            given["offsets"] = [
                _TopicPartition(topic, partition, offset, metadata)
                for topic, partition, offset, metadata in offsets
            ]
        self._async_done.clear()
        outcome: Any = self._thread.call(lambda: self._consumer.commit(asynchronous=asynchronous, **given))
        for each in outcome or ():
            if each.error is not None:
                raise _kafka.KafkaException(each.error)
        if asynchronous:
            assert self._async_done.wait(_TIMEOUT_S), "no callback of the commit"
            if self._async_error is not None:
                raise _kafka.KafkaException(self._async_error)

    def committed(self, topic: str, partitions: list[int]) -> list[tuple[int, int]]:
        """Fetch committed offsets."""
        wanted = [_TopicPartition(topic, partition) for partition in partitions]
        found: Any = self._thread.call(lambda: self._consumer.committed(wanted, _TIMEOUT_S))
        return [(each.partition, each.offset) for each in found]

    def close(self) -> None:
        """Leave."""
        self._thread.close()

    def _on_commit(self, error: Any, _: Any) -> None:
        self._async_error = error
        self._async_done.set()


class Transactor:
    """A transactional producer, and the consumer of its source."""

    def __init__(self, bootstrap: str, terms: dict[str, Any]) -> None:
        self._producer: Any = _kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": terms["transactional_id"],
                "transaction.timeout.ms": terms["timeout_ms"],
                "linger.ms": 2,
                **_RETRY,
            }
        )
        self._producer.init_transactions(_TIMEOUT_S)
        self._consumer: Any = None
        if terms["group"]:
            self._consumer = _kafka.Consumer(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": terms["group"],
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                }
            )
            self._consumer.subscribe([terms["source"]])
        self._from: dict[tuple[str, int], int] = {}

    def poll(self, count: int) -> list[Found]:
        """Poll until `count` records came."""
        found: list[Found] = []
        for _ in range(200):
            for message in self._consumer.consume(100, 0.1):
                if (error := message.error()) is not None:
                    raise _kafka.KafkaException(error)
                where = (message.topic(), message.partition())
                self._from.setdefault(where, message.offset())
                found.append((*where, message.offset(), message.value().decode()))
            if len(found) >= count:
                return found
        raise TimeoutError(f"{len(found)} of {count} records came")

    def begin(self) -> None:
        """Begin."""
        self._producer.begin_transaction()

    def send(self, topic: str, values: list[list[Any]]) -> None:
        """Write and wait."""
        failures: list[Any] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(error)

        for partition, value in values:
            self._producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered)
        left = self._producer.flush(_TIMEOUT_S)
        if failures:
            raise _kafka.KafkaException(failures[0])
        assert left == 0, f"{left} records were not delivered"

    def end(self, commit: bool) -> None:
        """Commit with the offsets of what was polled, or abort and go back."""
        if commit:
            if self._consumer is not None:
                positions = self._consumer.position(self._consumer.assignment())
                known = [position for position in positions if position.offset >= 0]
                metadata = self._consumer.consumer_group_metadata()
                self._producer.send_offsets_to_transaction(known, metadata, _TIMEOUT_S)
            self._producer.commit_transaction(_TIMEOUT_S)
        else:
            self._producer.abort_transaction(_TIMEOUT_S)
            for (topic, partition), offset in self._from.items():
                self._consumer.seek(_TopicPartition(topic, partition, offset))
        self._from = {}

    def close(self) -> None:
        """Let go of both; a Python binding closes a producer when it is collected."""
        if self._consumer is not None:
            self._consumer.close()
        self._producer.close()


def _stream(bootstrap: str, terms: dict[str, Any]) -> Stream:
    """A producer with the library's own patience."""
    tally = Tally()

    def troubled(error: Any) -> None:
        tally.error(error.name())

    producer: Any = _kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "error_cb": troubled}
    )

    def send(partition: int, value: str, sent_us: int) -> None:
        def delivered(error: Any, message: Any) -> None:
            if error is None:
                tally.acked(partition, value, message.offset(), sent_us)
            else:
                tally.failed(partition, value, sent_us, str(error))

        producer.produce(terms["topic"], value.encode(), partition=partition, on_delivery=delivered)
        producer.poll(0)

    return Stream(terms, tally, send, lambda: producer.flush(_STREAM_END_S))


class Confluent:
    """The library."""

    def __init__(self) -> None:
        self._bootstrap = ""
        self._admin: Any = None

    def connect(self, bootstrap: str) -> None:
        """Use this cluster."""
        self._bootstrap = bootstrap
        self._admin = _admin.AdminClient({"bootstrap.servers": bootstrap, **_RETRY})

    def member(self, terms: dict[str, Any]) -> Member:
        """Join a group."""
        return Member(self._bootstrap, terms)

    def transactor(self, terms: dict[str, Any]) -> Transactor:
        """Take over a transactional id."""
        return Transactor(self._bootstrap, terms)

    def stream(self, terms: dict[str, Any]) -> Stream:
        """Write until told otherwise."""
        return _stream(self._bootstrap, terms)

    def code_of(self, error: Exception) -> int:
        """The protocol's error code, or one of librdkafka's own below 0."""
        return _code(error.args[0]) if isinstance(error, _kafka.KafkaException) else -1

    def group_offsets(self, group: str) -> list[Found]:
        """All committed offsets of a group."""
        asked = _kafka.ConsumerGroupTopicPartitions(group)
        (future,) = self._admin.list_consumer_group_offsets([asked]).values()
        return [
            # Its metadata is not asked for: this binding reads on past the end of the text.
            (each.topic, each.partition, each.offset, "")
            for each in future.result(_TIMEOUT_S).topic_partitions
        ]

    def list_groups(self) -> list[list[str]]:
        """Group, type and state of all groups."""
        found = self._admin.list_consumer_groups().result(_TIMEOUT_S)
        return [[each.group_id, each.type.name.lower(), _state(each.state)] for each in found.valid]

    def describe_group(self, group: str) -> dict[str, Any]:
        """State and members of one group."""
        (future,) = self._admin.describe_consumer_groups([group]).values()
        found: Any = future.result(_TIMEOUT_S)
        return {
            "state": _state(found.state),
            "members": [
                {
                    "instance": member.group_instance_id,
                    "partitions": sorted(_pairs(member.assignment.topic_partitions)),
                }
                for member in found.members
            ],
        }

    def delete_group(self, group: str) -> None:
        """Delete an empty group."""
        (future,) = self._admin.delete_consumer_groups([group]).values()
        future.result(_TIMEOUT_S)

    def alter_offsets(self, group: str, offsets: list[list[Any]]) -> None:
        """Set offsets of a group without members."""
        wanted = [_TopicPartition(topic, partition, offset) for topic, partition, offset in offsets]
        asked = _kafka.ConsumerGroupTopicPartitions(group, wanted)
        (future,) = self._admin.alter_consumer_group_offsets([asked]).values()
        for each in future.result(_TIMEOUT_S).topic_partitions:
            if each.error is not None:
                raise _kafka.KafkaException(each.error)


def _settings(bootstrap: str, terms: dict[str, Any], on_commit: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": terms["group"],
        "enable.auto.commit": terms["commit"] == "auto",
        "auto.commit.interval.ms": 100,
        "auto.offset.reset": {"none": "error"}.get(terms["reset"], terms["reset"]),
        "isolation.level": terms["isolation"],
        "fetch.wait.max.ms": 100,
        "topic.metadata.refresh.interval.ms": 1_000,
        "on_commit": on_commit,
        **_RETRY,
    }
    if terms["instance"]:
        settings["group.instance.id"] = terms["instance"]
    if terms["protocol"] == "consumer":
        settings["group.protocol"] = "consumer"
    else:
        settings["partition.assignment.strategy"] = _STRATEGIES[terms["protocol"]]
        settings["session.timeout.ms"] = terms["session_ms"]
        settings["heartbeat.interval.ms"] = terms["heartbeat_ms"]
    return settings


def _pairs(partitions: Iterable[Any]) -> set[tuple[str, int]]:
    return {(each.topic, each.partition) for each in partitions}


def _state(state: Any) -> str:
    # PREPARING_REBALANCING is the name this library has for Kafka's PreparingRebalance.
    return "".join(word.capitalize() for word in state.name.split("_"))


def _code(error: Any) -> int:
    code: int = error.code()
    return code


if __name__ == "__main__":
    serve_client(Confluent())
