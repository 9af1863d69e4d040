"""aiokafka, the asyncio client, run to completion on a loop of its own. It ships no types."""

import asyncio
from collections.abc import Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from tests.conformance.clients.face import (
    Client,
    ClientError,
    ClusterSeen,
    Node,
    OffsetSpec,
    Operation,
    PartitionSeen,
)
from tests.conformance.clients.reading import ReadBack
from tests.conformance.scenarios import How, Read, Record, Traits

_aiokafka: Any = import_module("aiokafka")
_admin: Any = import_module("aiokafka.admin")
_errors: Any = import_module("aiokafka.errors")
_TopicPartition: Any = _aiokafka.TopicPartition

T = TypeVar("T")


class AioKafka:
    """The client under test, with one admin connection kept open."""

    name = "aiokafka"
    traits = Traits()
    operations: frozenset[Operation] = frozenset(
        (
            "create_topic",
            "delete_topic",
            "describe_topic",
            "add_partitions",
            "alter_config",
            "describe_config",
            "delete_records",
            "list_offset",
            "describe_cluster",
        )
    )

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._runner = asyncio.Runner()
        self._admin: Any = self._run(self._started_admin())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        with _translated():
            return self._runner.run(work)

    async def _started_admin(self) -> Any:
        admin: Any = _admin.AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        return admin

    def produce(self, topic: str, records: Sequence[Record], how: How) -> list[int | None]:
        return self._run(self._produce(topic, records, how))

    async def _produce(self, topic: str, records: Sequence[Record], how: How) -> list[int | None]:
        producer: Any = _aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if how.codec == "none" else how.codec,
            acks="all" if how.acks == -1 else how.acks,
            enable_idempotence=how.idempotent,
            linger_ms=5,
            max_request_size=1_048_588,
        )
        async with producer:
            futures: list[Any] = [
                await producer.send(
                    topic,
                    partition=record.partition,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            answers: list[Any] = await asyncio.wait_for(asyncio.gather(*futures), 30)
        return [None if how.acks == 0 else answer.offset for answer in answers]

    def consume(self, topic: str, ends: Mapping[int, int], isolation: str = "read_committed") -> list[Read]:
        return self._run(self._consume(topic, ends, isolation))

    async def _consume(self, topic: str, ends: Mapping[int, int], isolation: str) -> list[Read]:
        async with _consumer(self._bootstrap, isolation) as consumer:
            consumer.assign([_TopicPartition(topic, partition) for partition in ends])
            await consumer.seek_to_beginning()
            back = ReadBack(ends)
            while not back.complete():
                for page in (await consumer.getmany(timeout_ms=500)).values():
                    for got in page:
                        headers = tuple((key, value) for key, value in got.headers)
                        back.add(Read(got.partition, got.offset, got.key, got.value, headers, got.timestamp))
            return back.records

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        new = _admin.NewTopic(topic, partitions, 1, topic_configs=dict(configs))
        answer: Any = self._run(self._admin.create_topics([new]))
        _check(answer.topic_errors)

    def delete_topic(self, topic: str) -> None:
        answer: Any = self._run(self._admin.delete_topics([topic]))
        _check(answer.topic_error_codes)

    def describe_topic(self, topic: str) -> list[PartitionSeen]:
        # All topics are asked for: to ask for one by name would create it.
        topics = {seen["topic"]: seen for seen in self._run(self._admin.describe_topics())}
        if topic not in topics:
            raise ClientError(3, f"{topic} is not among the topics")
        return sorted(
            (
                PartitionSeen(each["partition"], each["leader"], tuple(each["replicas"]), tuple(each["isr"]))
                for each in topics[topic]["partitions"]
            ),
            key=lambda partition: partition.partition,
        )

    def describe_topic_partitions(self, topic: str) -> list[PartitionSeen]:
        raise NotImplementedError

    def add_partitions(self, topic: str, total: int) -> None:
        self._run(self._admin.create_partitions({topic: _admin.NewPartitions(total)}))

    def alter_config(self, topic: str, key: str, value: str) -> None:
        resource = _config_resource(topic, {key: value})
        for answer in self._run(self._admin.alter_configs([resource])):
            for code, message, *_ in answer.resources:
                if code:
                    raise ClientError(code, message)

    def describe_config(self, topic: str) -> dict[str, str | None]:
        (answer,) = self._run(self._admin.describe_configs([_config_resource(topic, None)]))
        ((code, message, _, _, entries),) = answer.resources
        if code:
            raise ClientError(code, message)
        return {entry[0]: entry[1] for entry in entries}

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        where = _TopicPartition(topic, partition)
        wanted = {where: _admin.RecordsToDelete(before_offset=before)}
        answer: dict[Any, int] = self._run(self._admin.delete_records(wanted))
        return answer[where]

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        return self._run(self._list_offset(_TopicPartition(topic, partition), spec))

    async def _list_offset(self, where: Any, spec: OffsetSpec) -> int:
        async with _consumer(self._bootstrap, "read_uncommitted") as consumer:
            consumer.assign([where])
            offset: int
            match spec:
                case "earliest":
                    offset = (await consumer.beginning_offsets([where]))[where]
                case "latest":
                    offset = (await consumer.end_offsets([where]))[where]
                case "max_timestamp":
                    raise NotImplementedError
                case moment:
                    found: Any = (await consumer.offsets_for_times({where: moment}))[where]
                    offset = -1 if found is None else found.offset
            return offset

    def describe_cluster(self) -> ClusterSeen:
        seen: Any = self._run(self._admin.describe_cluster())
        nodes = tuple(Node(node["node_id"], node["host"], node["port"]) for node in seen["brokers"])
        return ClusterSeen(seen["cluster_id"], nodes)

    def describe_log_dirs(self, topic: str) -> dict[int, int]:
        raise NotImplementedError

    def close(self) -> None:
        """Close the admin connection and the loop."""
        self._run(self._admin.close())
        self._runner.close()


def _consumer(bootstrap: str, isolation: str) -> Any:
    return _aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        enable_auto_commit=False,
        isolation_level=isolation,
        auto_offset_reset="earliest",
    )


def _config_resource(topic: str, configs: dict[str, str] | None) -> Any:
    resource: Any = import_module("aiokafka.admin.config_resource")
    return resource.ConfigResource(resource.ConfigResourceType.TOPIC, topic, configs=configs)


def _check(errors: Sequence[Any]) -> None:
    for topic, code, *message in errors:
        if code:
            raise ClientError(code, f"{topic}: {message}")


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except _errors.BrokerResponseError as error:
        raise ClientError(getattr(error, "errno", -1), str(error)) from error


def connect(bootstrap: str) -> Client:
    """A connected aiokafka."""
    return AioKafka(bootstrap)
