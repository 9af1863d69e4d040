"""kafka-python as a driver."""

import re
import threading
from importlib import import_module
from typing import Any

from tests.conformance.clients.served.serve import Found, PollThread, Sightings, Tally, serve_client
from tests.conformance.clients.served.stream import Stream

_kafka: Any = import_module("kafka")
_admin: Any = import_module("kafka.admin")
_errors: Any = import_module("kafka.errors")
_assignors: Any = import_module("kafka.coordinator.assignors.range")
_cooperative: Any = import_module("kafka.coordinator.assignors.cooperative_sticky")
_TopicPartition: Any = _kafka.TopicPartition
_Offset: Any = _kafka.OffsetAndMetadata
_TIMEOUT_S = 20.0
_STREAM_END_S = 90.0
_JOIN_PATIENCE_MS = 20_000


class Member:
    """One consumer."""

    def __init__(self, bootstrap: str, terms: dict[str, Any]) -> None:
        self.sightings = Sightings()
        self._commit_each = terms["commit"] == "each"
        self._consumer: Any = _kafka.KafkaConsumer(**_settings(bootstrap, terms))
        listener: Any = _listener_of(self)
        if terms["pattern"]:
            self._consumer.subscribe(pattern=f"^{terms['pattern']}", listener=listener)
        else:
            self._consumer.subscribe(terms["topics"], listener=listener)
        self._thread = PollThread(self._poll, self._close)

    def _poll(self) -> None:
        try:
            pages: Any = _poll(self._consumer)
        except _errors.KafkaError as error:
            self.sightings.failed(_code(error), repr(error))
            return
        for page in pages.values():
            for got in page:
                self.sightings.record(got.topic, got.partition, got.offset, got.value)
        if pages and self._commit_each:
            self._commit_quietly()

    def _commit_quietly(self) -> None:
        try:
            self._consumer.commit()
        except _errors.KafkaError:
            pass  # A rebalance got ahead of us; the next commit covers it.

    def revoked(self, partitions: Any, event: str) -> None:
        """Note it. What was polled is committed by now, and this callback may not wait for a commit."""
        self.sightings.revoked({(each.topic, each.partition) for each in partitions}, event)

    def commit(self, offsets: list[list[Any]] | None, asynchronous: bool) -> None:
        """Commit in the poll thread; wait for the callback of an asynchronous one."""
        given = None
        if offsets is not None:
            given = {
                _TopicPartition(topic, partition): _Offset(offset, metadata, -1)
                for topic, partition, offset, metadata in offsets
            }
        if not asynchronous:
            self._thread.call(lambda: self._consumer.commit(given))
            return
        done = threading.Event()
        outcome: list[Any] = []

        def on_commit(_: Any, answer: Any) -> None:
            outcome.append(answer)
            done.set()

        self._thread.call(lambda: self._consumer.commit_async(given, callback=on_commit))
        assert done.wait(_TIMEOUT_S), "no callback of the commit"
        if isinstance(outcome[0], Exception):
            raise outcome[0]

    def committed(self, topic: str, partitions: list[int]) -> list[tuple[int, int]]:
        """Fetch committed offsets."""

        def fetch() -> list[tuple[int, int]]:
            found = [(each, self._consumer.committed(_TopicPartition(topic, each))) for each in partitions]
            return [(partition, -1 if offset is None else offset) for partition, offset in found]

        answer: list[tuple[int, int]] = self._thread.call(fetch)
        return answer

    def close(self) -> None:
        """Leave."""
        self._thread.close()

    def _close(self) -> None:
        self._consumer.close(autocommit=False)


def _poll(consumer: Any) -> Any:
    """Poll shortly, but let a rebalance come to its end first.

    A poll whose time ends before its SyncGroup is answered throws the answer away (3.0.12). The next one
    joins anew, or, where the join was for new metadata, takes itself for joined and has no partitions.
    """
    coordinator = consumer._coordinator
    if coordinator._join_task is not None:
        coordinator.request_rejoin()
    if coordinator.need_rejoin():
        coordinator.poll(timeout_ms=_JOIN_PATIENCE_MS)
    return consumer.poll(timeout_ms=100)


def _listener_of(member: Member) -> Any:
    # The base class is untyped, so the listener is made here by hand.
    def on_assigned(_: Any, partitions: Any) -> None:
        member.sightings.assigned({(each.topic, each.partition) for each in partitions})

    def on_revoked(_: Any, partitions: Any) -> None:
        member.revoked(partitions, "revoked")

    def on_lost(_: Any, partitions: Any) -> None:
        member.revoked(partitions, "lost")

    methods = {
        "on_partitions_assigned": on_assigned,
        "on_partitions_revoked": on_revoked,
        "on_partitions_lost": on_lost,
    }
    return type("Listener", (_kafka.ConsumerRebalanceListener,), methods)()


class Transactor:
    """A transactional producer, and the consumer of its source."""

    def __init__(self, bootstrap: str, terms: dict[str, Any]) -> None:
        self._producer: Any = _kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=terms["transactional_id"],
            transaction_timeout_ms=terms["timeout_ms"],
            linger_ms=2,
        )
        self._producer.init_transactions()
        self._consumer: Any = None
        if terms["group"]:
            self._consumer = _kafka.KafkaConsumer(
                terms["source"],
                bootstrap_servers=bootstrap,
                group_id=terms["group"],
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            )
        self._from: dict[Any, int] = {}

    def poll(self, count: int) -> list[Found]:
        """Poll until `count` records came."""
        found: list[Found] = []
        for _ in range(200):
            for where, page in _poll(self._consumer).items():
                self._from.setdefault(where, page[0].offset)
                found += [(got.topic, got.partition, got.offset, got.value.decode()) for got in page]
            if len(found) >= count:
                return found
        raise TimeoutError(f"{len(found)} of {count} records came")

    def begin(self) -> None:
        """Begin."""
        self._producer.begin_transaction()

    def send(self, topic: str, values: list[list[Any]]) -> None:
        """Write and wait."""
        futures: list[Any] = [
            self._producer.send(topic, value.encode(), partition=partition) for partition, value in values
        ]
        self._producer.flush(timeout=_TIMEOUT_S)
        for future in futures:
            future.get(timeout=_TIMEOUT_S)

    def end(self, commit: bool) -> None:
        """Commit with the offsets of what was polled, or abort and go back."""
        if commit:
            if self._consumer is not None:
                offsets = {
                    where: _Offset(self._consumer.position(where), "", -1)
                    for where in self._consumer.assignment()
                }
                self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()
            for where, offset in self._from.items():
                self._consumer.seek(where, offset)
        self._from = {}

    def close(self) -> None:
        """Close both."""
        if self._consumer is not None:
            self._consumer.close()
        self._producer.close(timeout=5)


def _stream(bootstrap: str, terms: dict[str, Any]) -> Stream:
    """A producer with the library's own patience."""
    tally = Tally()
    producer: Any = _kafka.KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)

    def send(partition: int, value: str, sent_us: int) -> None:
        def told(found: Any) -> None:
            tally.acked(partition, value, found.offset, sent_us)

        def refused(error: Any) -> None:
            tally.failed(partition, value, sent_us, repr(error))

        future: Any = producer.send(terms["topic"], value.encode(), partition=partition)
        future.add_callback(told)
        future.add_errback(refused)

    return Stream(terms, tally, send, lambda: producer.flush(timeout=_STREAM_END_S))


class KafkaPython:
    """The library."""

    def __init__(self) -> None:
        self._bootstrap = ""
        self._admin: Any = None

    def connect(self, bootstrap: str) -> None:
        """Use this cluster."""
        self._bootstrap = bootstrap
        self._admin = _admin.KafkaAdminClient(bootstrap_servers=bootstrap)

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
        """The protocol's error code."""
        return _code(error)

    def group_offsets(self, group: str) -> list[Found]:
        """All committed offsets of a group."""
        found: Any = self._admin.list_group_offsets([group])[group]
        return [
            (where.topic, where.partition, each.offset, each.metadata or "") for where, each in found.items()
        ]

    def list_groups(self) -> list[list[str]]:
        """Group, type and state of all groups."""
        found: Any = self._admin.list_groups()
        return [[each["group_id"], each["group_type"], each["group_state"]] for each in found]

    def describe_group(self, group: str) -> dict[str, Any]:
        """State and members of one group."""
        found: Any = self._admin.describe_groups([group])[group]
        return {
            "state": found["group_state"],
            "members": [
                {
                    "instance": member["group_instance_id"],
                    "partitions": sorted(_assigned(member["member_assignment"])),
                }
                for member in found["members"]
            ],
        }

    def delete_group(self, group: str) -> None:
        """Delete an empty group."""
        answer: Any = self._admin.delete_groups([group])
        _raise(answer[group])

    def alter_offsets(self, group: str, offsets: list[list[Any]]) -> None:
        """Set offsets of a group without members."""
        wanted = {
            _TopicPartition(topic, partition): _Offset(offset, "", -1) for topic, partition, offset in offsets
        }
        for error in self._admin.alter_group_offsets(group, wanted).values():
            _raise(error)

    def delete_offsets(self, group: str, topic: str, partition: int) -> None:
        """Forget one offset."""
        answer: Any = self._admin.delete_group_offsets(group, [_TopicPartition(topic, partition)])
        for error in answer.values():
            _raise(error)

    def list_transactions(self) -> list[list[str]]:
        """Transactional id and state of all transactions."""
        found: Any = self._admin.list_transactions()
        return [[each.transactional_id, str(each.state)] for node in found.values() for each in node]

    def describe_transaction(self, transactional_id: str) -> dict[str, Any]:
        """State and partitions of one transaction."""
        found: Any = self._admin.describe_transactions([transactional_id])[transactional_id]
        return {
            "state": found.state,
            "timeout_ms": found.transaction_timeout_ms,
            "partitions": sorted((each.topic, each.partition) for each in found.topic_partitions),
        }

    def describe_producers(self, topic: str, partition: int) -> list[dict[str, int]]:
        """The producers with state in a partition."""
        where = _TopicPartition(topic, partition)
        found: Any = self._admin.describe_producers([where])[where]
        return [{"last_sequence": each.last_sequence} for each in found.active_producers]


def _settings(bootstrap: str, terms: dict[str, Any]) -> dict[str, Any]:
    strategy: Any = _assignors.RangePartitionAssignor
    if terms["protocol"] == "cooperative":
        strategy = _cooperative.CooperativeStickyAssignor
    return {
        "bootstrap_servers": bootstrap,
        "group_id": terms["group"],
        "group_instance_id": terms["instance"],
        "enable_auto_commit": terms["commit"] == "auto",
        "auto_commit_interval_ms": 100,
        "auto_offset_reset": terms["reset"],
        "isolation_level": terms["isolation"],
        "session_timeout_ms": terms["session_ms"],
        "heartbeat_interval_ms": terms["heartbeat_ms"],
        "metadata_max_age_ms": 1_000,
        "fetch_max_wait_ms": 100,
        "partition_assignment_strategy": (strategy,),
    }


def _assigned(assignment: Any) -> list[tuple[str, int]]:
    if not assignment:
        return []
    topics: list[Any] = assignment["assigned_partitions"]
    return [(topic["topic"], partition) for topic in topics for partition in topic["partitions"]]


def _raise(error: Any) -> None:
    if error is _errors.NoError or str(error) == "OK":
        return
    raise error() if isinstance(error, type) else getattr(_errors, str(error))()


def _code(error: Exception) -> int:
    number = re.search(r"Error (\d+)", str(error))
    return int(number[1]) if number else int(getattr(error, "errno", None) or -1)


if __name__ == "__main__":
    serve_client(KafkaPython())
