"""aiokafka as a driver: all sessions on one event loop, which runs in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from tests.conformance.clients.served.serve import Found, Sightings, Tally, serve_client
from tests.conformance.clients.served.stream import Pace

_aiokafka: Any = import_module("aiokafka")
_abc: Any = import_module("aiokafka.abc")
_admin: Any = import_module("aiokafka.admin")
_errors: Any = import_module("aiokafka.errors")
_range: Any = import_module("aiokafka.coordinator.assignors.range")
_protocol: Any = import_module("aiokafka.coordinator.protocol")
_TopicPartition: Any = _aiokafka.TopicPartition
_TIMEOUT_S = 20.0
_STREAM_END_S = 90.0

T = TypeVar("T")


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = _TIMEOUT_S) -> T:
        """Run to completion on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)


class Member:
    """One consumer and the task that polls it."""

    def __init__(self, loop: Loop, bootstrap: str, terms: dict[str, Any]) -> None:
        self.sightings = Sightings()
        self._loop = loop
        self._commit_each = terms["commit"] == "each"
        self._consumer: Any = None
        self._task: asyncio.Task[None] | None = None
        loop.run(self._open(bootstrap, terms))

    async def _open(self, bootstrap: str, terms: dict[str, Any]) -> None:
        self._consumer = _aiokafka.AIOKafkaConsumer(**_settings(bootstrap, terms))
        listener: Any = _listener_of(self)
        if terms["pattern"]:
            self._consumer.subscribe(pattern=f"^{terms['pattern']}", listener=listener)
        else:
            self._consumer.subscribe(terms["topics"], listener=listener)
        # Its start waits for the first assignment, which may take as long as others need.
        self._task = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        try:
            await self._consumer.start()
            while True:
                pages: Any = await self._consumer.getmany(timeout_ms=100)
                for page in pages.values():
                    for got in page:
                        self.sightings.record(got.topic, got.partition, got.offset, got.value)
                if pages and self._commit_each:
                    await self.commit_quietly()
        except _errors.KafkaError as error:
            self.sightings.failed(_code(error), repr(error))

    async def commit_quietly(self) -> None:
        """Commit; a rebalance may get ahead of us, and the next commit covers it."""
        try:
            await self._consumer.commit()
        except _errors.KafkaError:
            pass

    async def revoked(self, partitions: Any) -> None:
        """Commit what was polled, then let go."""
        if self._commit_each and partitions:
            await self.commit_quietly()
        self.sightings.revoked({(each.topic, each.partition) for each in partitions})

    def commit(self, offsets: list[list[Any]] | None, asynchronous: bool) -> None:
        """Commit; this library has one way only, which a task makes asynchronous."""
        if offsets is None:
            self._loop.run(self._consumer.commit())
            return
        given = {
            _TopicPartition(topic, partition): (offset, metadata)
            for topic, partition, offset, metadata in offsets
        }
        self._loop.run(self._consumer.commit(given))

    def committed(self, topic: str, partitions: list[int]) -> list[tuple[int, int]]:
        """Fetch committed offsets."""
        found: list[tuple[int, int]] = []
        for partition in partitions:
            offset = self._loop.run(self._consumer.committed(_TopicPartition(topic, partition)))
            found.append((partition, -1 if offset is None else offset))
        return found

    def close(self) -> None:
        """Leave."""
        self._loop.run(self._close())

    async def _close(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._consumer.stop()


def _listener_of(member: Member) -> Any:
    async def on_assigned(_: Any, assigned: Any) -> None:
        member.sightings.assigned({(each.topic, each.partition) for each in assigned})

    async def on_revoked(_: Any, revoked: Any) -> None:
        await member.revoked(revoked)

    methods = {"on_partitions_assigned": on_assigned, "on_partitions_revoked": on_revoked}
    return type("Listener", (_abc.ConsumerRebalanceListener,), methods)()


class Transactor:
    """A transactional producer, and the consumer of its source."""

    def __init__(self, loop: Loop, bootstrap: str, terms: dict[str, Any]) -> None:
        self._loop = loop
        self._group: str = terms["group"]
        self._producer: Any = None
        self._consumer: Any = None
        self._from: dict[Any, int] = {}
        loop.run(self._open(bootstrap, terms))

    async def _open(self, bootstrap: str, terms: dict[str, Any]) -> None:
        self._producer = _aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=terms["transactional_id"],
            transaction_timeout_ms=terms["timeout_ms"],
        )
        await self._producer.start()
        if self._group:
            self._consumer = _aiokafka.AIOKafkaConsumer(
                terms["source"],
                bootstrap_servers=bootstrap,
                group_id=self._group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            )
            await self._consumer.start()

    def poll(self, count: int) -> list[Found]:
        """Poll until `count` records came."""
        found: list[Found] = []
        for _ in range(200):
            pages: Any = self._loop.run(self._consumer.getmany(timeout_ms=100))
            for where, page in pages.items():
                self._from.setdefault(where, page[0].offset)
                found += [(got.topic, got.partition, got.offset, got.value.decode()) for got in page]
            if len(found) >= count:
                return found
        raise TimeoutError(f"{len(found)} of {count} records came")

    def begin(self) -> None:
        """Begin."""
        self._loop.run(self._producer.begin_transaction())

    def send(self, topic: str, values: list[list[Any]]) -> None:
        """Write and wait."""
        self._loop.run(self._send(topic, values))

    async def _send(self, topic: str, values: list[list[Any]]) -> None:
        futures: list[Any] = [
            await self._producer.send(topic, value.encode(), partition=partition)
            for partition, value in values
        ]
        await asyncio.gather(*futures)

    def end(self, commit: bool) -> None:
        """Commit with the offsets of what was polled, or abort and go back."""
        self._loop.run(self._end(commit))
        self._from = {}

    async def _end(self, commit: bool) -> None:
        if commit:
            if self._consumer is not None:
                offsets = {
                    where: await self._consumer.position(where) for where in self._consumer.assignment()
                }
                await self._producer.send_offsets_to_transaction(offsets, self._group)
            await self._producer.commit_transaction()
        else:
            await self._producer.abort_transaction()
            for where, offset in self._from.items():
                self._consumer.seek(where, offset)

    def close(self) -> None:
        """Close both."""
        if self._consumer is not None:
            self._loop.run(self._consumer.stop())
        self._loop.run(self._producer.stop())


class Stream:
    """A producer with the library's own patience, and the task that writes with it."""

    def __init__(self, loop: Loop, bootstrap: str, terms: dict[str, Any]) -> None:
        self.tally = Tally()
        self._loop = loop
        self._pace = Pace(terms["topic"], terms["partitions"], terms["rate"])
        self._ended = asyncio.Event()
        self._producer: Any = None
        self._task: asyncio.Task[None] | None = None
        loop.run(self._open(bootstrap))

    async def _open(self, bootstrap: str) -> None:
        self._producer = _aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await self._producer.start()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            partition, value = self._pace.next(number)
            sent_us = self.tally.sending()
            future: Any = await self._producer.send(self._pace.topic, value.encode(), partition=partition)
            future.add_done_callback(partial(self._told, partition, value, sent_us))
            number += 1
            await asyncio.sleep(self._pace.interval_s)

    def _told(self, partition: int, value: str, sent_us: int, future: Any) -> None:
        if (error := future.exception()) is None:
            self.tally.acked(partition, value, future.result().offset, sent_us)
        else:
            self.tally.failed(partition, value, sent_us, repr(error))

    def close(self) -> None:
        """Write no more, and wait until the library has told of every record."""
        self._loop.run(self._close(), _STREAM_END_S)

    async def _close(self) -> None:
        assert self._task is not None
        self._ended.set()
        await self._task
        await self._producer.stop()


class AioKafka:
    """The library."""

    def __init__(self) -> None:
        self._loop = Loop()
        self._bootstrap = ""
        self._admin: Any = None

    def connect(self, bootstrap: str) -> None:
        """Use this cluster."""
        self._bootstrap = bootstrap
        self._loop.run(self._connect())

    async def _connect(self) -> None:
        self._admin = _admin.AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await self._admin.start()

    def member(self, terms: dict[str, Any]) -> Member:
        """Join a group."""
        return Member(self._loop, self._bootstrap, terms)

    def transactor(self, terms: dict[str, Any]) -> Transactor:
        """Take over a transactional id."""
        return Transactor(self._loop, self._bootstrap, terms)

    def stream(self, terms: dict[str, Any]) -> Stream:
        """Write until told otherwise."""
        return Stream(self._loop, self._bootstrap, terms)

    def code_of(self, error: Exception) -> int:
        """The protocol's error code."""
        return _code(error)

    def group_offsets(self, group: str) -> list[Found]:
        """All committed offsets of a group."""
        found: Any = self._loop.run(self._admin.list_consumer_group_offsets(group))
        return [
            (where.topic, where.partition, each.offset, each.metadata or "") for where, each in found.items()
        ]

    def list_groups(self) -> list[list[str]]:
        """Group, type and state of all groups; this library tells neither type nor state."""
        found: Any = self._loop.run(self._admin.list_consumer_groups())
        return [[group, "", ""] for group, _ in found]

    def describe_group(self, group: str) -> dict[str, Any]:
        """State and members of one group."""
        (answer,) = self._loop.run(self._admin.describe_consumer_groups([group]))
        ((code, _, state, _, _, members, *_),) = answer.groups
        if code:
            raise _errors.for_code(code)
        return {
            "state": state,
            "members": [{"instance": None, "partitions": sorted(_assigned(each[-1]))} for each in members],
        }


def _settings(bootstrap: str, terms: dict[str, Any]) -> dict[str, Any]:
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
        "partition_assignment_strategy": (_range.RangePartitionAssignor,),
    }


def _assigned(assignment: bytes) -> list[tuple[str, int]]:
    if not assignment:
        return []
    decoded: Any = _protocol.ConsumerProtocolMemberAssignment.decode(assignment)
    return [(topic, partition) for topic, partitions in decoded.assignment for partition in partitions]


def _code(error: Exception) -> int:
    if isinstance(error, _errors.ProducerFenced):
        return 90  # Its own class, without the code that it stands for.
    return int(getattr(error, "errno", None) or -1)


if __name__ == "__main__":
    serve_client(AioKafka())
