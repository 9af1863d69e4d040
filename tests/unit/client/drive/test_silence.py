"""Leaders that say nothing while others have taken over (P4), with brokers by script."""

import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from everlog.client.sync.producer import Producer
from everlog.wire.codec import RequestHeader
from everlog.wire.message import Message
from everlog.wire.messages.api_versions import ApiVersionsRequest
from everlog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from everlog.wire.messages.produce import PartitionProduceResponse, ProduceResponse
from tests.unit.client.builders import ORDERS_ID
from tests.unit.client.drive.test_sender import PATIENCE_S, Partition, Step
from tests.unit.client.sync.scripted import ScriptedBroker

FOREVER_MS = 3_600_000


class Pair:
    """Two brokers and one partition, which one of them leads."""

    def __init__(self, *steps: Step) -> None:
        self.leader = 1
        self.thaw = threading.Event()
        """Lets go on whoever is frozen."""
        self.old, self.new = _Replica(self, *steps), _Replica(self)
        self.ports: list[int] = []

    def freeze(self, answer: PartitionProduceResponse, _response: ProduceResponse) -> None:
        """A step: say nothing, and be replaced."""
        self.leader = 2
        assert self.thaw.wait(PATIENCE_S)

    @contextmanager
    def producing(self, **options: Any) -> Generator[Producer]:
        """A producer whose requests and connections may take forever."""
        with ExitStack() as stack:
            stack.callback(self.thaw.set)
            for replica in (self.old, self.new):
                self.ports.append(stack.enter_context(ScriptedBroker(replica)).port)
            yield stack.enter_context(
                Producer(
                    ",".join(f"127.0.0.1:{port}" for port in self.ports),
                    request_timeout_ms=FOREVER_MS,
                    delivery_timeout_ms=2 * FOREVER_MS,
                    socket_connection_setup_timeout_ms=FOREVER_MS,
                    retry_backoff_ms=5,
                    batch_size=0,
                    linger_ms=0,
                    **options,
                )
            )


class _Replica(Partition):
    """One broker's side of it."""

    def __init__(self, pair: Pair, *steps: Step) -> None:
        super().__init__(*steps)
        self._pair = pair

    def _metadata(self) -> MetadataResponse:
        leader = self._pair.leader
        partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=leader)
        brokers = [
            MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port)
            for node, port in enumerate(self._pair.ports, start=1)
        ]
        topic = MetadataResponseTopic(name="orders", topic_id=ORDERS_ID, partitions=[partition])
        return MetadataResponse(brokers=brokers, topics=[topic], controller_id=1, cluster_id="c")


def test_p4_what_a_frozen_leader_was_sent_goes_to_the_next_one_under_the_same_numbers() -> None:
    pair = Pair()
    pair.old.steps.extend([lambda answer, response: None, pair.freeze])
    with pair.producing() as producer:
        producer.send("orders", b"before").result(PATIENCE_S)
        assert producer.send("orders", b"a").result(PATIENCE_S).offset == 0
        # What the old leader says when it is awake again is about an attempt that nobody waits for.
        pair.thaw.set()
        assert producer.send("orders", b"b").result(PATIENCE_S).offset == 1

    assert pair.old.tried == [(0, 1), (1, 1)]
    assert pair.new.tried == [(1, 1), (2, 1)]


def test_p4_without_idempotence_only_the_leader_that_was_asked_can_say_what_became_of_a_batch() -> None:
    pair = Pair()
    asked_again = threading.Event()

    def freeze(answer: PartitionProduceResponse, response: ProduceResponse) -> None:
        pair.leader = 2
        assert asked_again.wait(PATIENCE_S)

    pair.old.steps.append(freeze)
    with pair.producing(enable_idempotence=False, acks=1) as producer:
        delivery = producer.send("orders", b"a")
        # By then it is known who leads now.
        _wait_until_asked(pair.new, 2)
        assert not delivery.done()
        asked_again.set()
        delivery.result(PATIENCE_S)

    assert pair.old.tried == [(-1, 1)]
    assert pair.new.tried == []


def test_p4_a_leader_that_does_not_finish_the_opening_of_a_connection_is_not_waited_for() -> None:
    pair = Pair()
    answer = pair.old.__call__

    def mute(header: RequestHeader, request: Message) -> Message | None:
        if isinstance(request, ApiVersionsRequest):
            pair.leader = 2
            pair.thaw.wait(PATIENCE_S)
            return None
        return answer(header, request)

    with ExitStack() as stack:
        stack.callback(pair.thaw.set)
        pair.ports.append(stack.enter_context(ScriptedBroker(mute, greets=False)).port)
        pair.ports.append(stack.enter_context(ScriptedBroker(pair.new)).port)
        producer = stack.enter_context(
            Producer(
                f"127.0.0.1:{pair.ports[1]}",
                socket_connection_setup_timeout_ms=FOREVER_MS,
                retry_backoff_ms=5,
            )
        )
        producer.send("orders", b"a").result(PATIENCE_S)
        pair.thaw.set()

    assert pair.new.tried == [(0, 1)]


def _wait_until_asked(replica: Partition, times: int) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_S * 100)):
        if replica.metadata_requests >= times:
            return
        pause.wait(0.01)
    raise AssertionError(f"asked {replica.metadata_requests} times, expected {times}")
