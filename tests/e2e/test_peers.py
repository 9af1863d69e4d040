"""A real broker as another node sees it: pipelined requests, large answers, and its death noticed at once."""

import asyncio
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
import uvloop

import everlog
from everlog.edge.alarm import LoopAlarm
from everlog.edge.clock import SystemClock
from everlog.edge.links import RealLinks
from everlog.embedded.brokers import EmbeddedBroker
from everlog.peers.address import Address, Unreachable
from everlog.peers.peer import Peer
from everlog.peers.peers import Peers
from everlog.wire.codec import decode_response, encode_request
from everlog.wire.message import Message
from everlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from everlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

pytestmark = pytest.mark.e2e

PATIENCE_SECONDS = 30
TOPIC = "large"
RECORD_BYTES = 500_000
RECORDS = 60


class Near:
    """This node: peers on an event loop that runs until a condition holds."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        clock = SystemClock()
        alarm = LoopAlarm(self._loop, clock)
        self.links = RealLinks(self._loop)
        self.peers = Peers(self.links, clock, alarm, "node-1")
        alarm.wakes(self.peers.tick)

    def until(self, condition: Callable[[], bool]) -> None:
        async def wait() -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not condition():  # noqa: ASYNC110  # it asks about several things at once
                    await asyncio.sleep(0.001)

        self._loop.run_until_complete(wait())

    def close(self) -> None:
        self.peers.close()
        self.links.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


@pytest.fixture
def near() -> Generator[Near]:
    made = Near()
    yield made
    made.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[EmbeddedBroker]:
    """A broker in a process of its own, with a topic of 30 MB."""
    directory: Path = tmp_path_factory.mktemp("peers")
    with everlog.Cluster(processes=True, directory=directory) as cluster:
        with everlog.Producer(cluster.bootstrap_servers, batch_size=2 * RECORD_BYTES) as producer:
            for number in range(RECORDS):
                producer.send(TOPIC, bytes([number]) * RECORD_BYTES, partition=0)
        yield cluster.brokers[0]


@pytest.fixture
def peer(near: Near, broker: EmbeddedBroker) -> Peer:
    host, _, port = broker.bootstrap.rpartition(":")
    return near.peers.at(Address(host, int(port)))


def metadata(topic: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)


def test_requests_in_flight_are_answered_in_order(near: Near, peer: Peer) -> None:
    answers: list[MetadataResponse] = []
    names = [f"topic-{number}" for number in range(500)]
    for name in names:
        peer.ask(metadata(name), 12, 20_000, answers.append)
    assert peer.in_flight == 500
    near.until(lambda: len(answers) == 500)
    assert [answer.topics[0].name for answer in answers] == names
    assert near.links.count == 1


def test_answers_of_many_megabytes_come_whole(near: Near, peer: Peer) -> None:
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=2 * RECORDS * RECORD_BYTES,
        topics=[
            FetchTopic(
                topic=TOPIC,
                partitions=[
                    FetchPartition(
                        partition=0, fetch_offset=0, partition_max_bytes=2 * RECORDS * RECORD_BYTES
                    )
                ],
            )
        ],
    )
    sizes: list[int] = []

    def done(frame: memoryview | Unreachable) -> None:
        assert isinstance(frame, memoryview)
        _, answer = decode_response(1, 12, frame)
        assert isinstance(answer, FetchResponse)
        records = answer.responses[0].partitions[0].records
        assert records is not None
        assert bytes([RECORDS - 1]) * RECORD_BYTES in bytes(records[-2 * RECORD_BYTES :])
        sizes.append(len(records))

    for _ in range(3):
        peer.ask_frame([encode_request(fetch, 12, 0, "node-1")], 20_000, done)
    near.until(lambda: len(sizes) == 3)
    assert all(size > RECORDS * RECORD_BYTES for size in sizes)


def test_a_paused_broker_is_silent_and_not_refused(near: Near, peer: Peer, broker: EmbeddedBroker) -> None:
    heard: list[Message | Unreachable] = []
    broker.pause()
    try:
        peer.ask(metadata(TOPIC), 12, 300, heard.append)
        refused: list[bool] = []
        peer.probe(refused.append)
        near.until(lambda: bool(heard) and bool(refused))
    finally:
        broker.resume()
    (failure,) = heard
    assert isinstance(failure, Unreachable)
    assert not failure.refused
    assert refused == [False], "its machine takes the connection for it"


def test_a_broker_that_dies_is_known_to_have_within_a_moment(
    near: Near, peer: Peer, broker: EmbeddedBroker
) -> None:
    heard: list[Message | Unreachable] = []
    lost: list[Unreachable] = []
    refused: list[bool] = []
    peer.ask(metadata(TOPIC), 12, 20_000, heard.append)
    near.until(lambda: len(heard) == 1)
    peer.on_lost(lost.append)
    peer.on_lost(lambda _: peer.probe(refused.append))
    began = time.monotonic()
    broker.kill()
    near.until(lambda: bool(refused))
    assert time.monotonic() - began < 5, "and not after a time-out"
    assert (len(lost), refused) == (1, [True])
    broker.start()
    peer.ask(metadata(TOPIC), 12, 20_000, heard.append)
    near.until(lambda: len(heard) == 2)
    assert isinstance(heard[1], MetadataResponse)
