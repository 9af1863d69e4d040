"""Produce: what is appended, what is refused and how, and when the answer leaves (L1, L8, R4, P4)."""

import errno

import pytest

from everlog.model.errors import ErrorCode, ProtocolError
from everlog.model.ids import Uuid
from everlog.records.batch import batch_at
from everlog.records.compression import Codec
from everlog.sim.faults import Fault, Kind
from everlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.unit.broker.simulated import SimulatedNode, a_batch, a_produce, fetched, produced, records_of


def test_offsets_follow_each_other() -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    client = node.client()

    first = produced(client, "orders", a_batch(b"a", b"b", b"c"))
    second = produced(client, "orders", a_batch(b"d"))

    assert (first.error_code, first.base_offset, first.log_start_offset) == (0, 0, 0)
    assert (second.error_code, second.base_offset) == (0, 3)
    assert [record.value for record in records_of(fetched(client, "orders", 0))] == [b"a", b"b", b"c", b"d"]


def test_one_bad_partition_does_not_fail_its_neighbours() -> None:
    node = SimulatedNode()
    node.create_topic("orders", partitions=2)
    torn = bytearray(a_batch(b"a"))
    torn[-1] ^= 1

    answer = node.client().call(
        a_produce("orders", (0, bytes(torn)), (1, a_batch(b"b")), (7, a_batch(b"c"))), 9, ProduceResponse
    )

    results = answer.responses[0].partition_responses
    assert [result.error_code for result in results] == [
        ErrorCode.CORRUPT_MESSAGE,
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [result.base_offset for result in results] == [-1, 0, -1]


def test_a_topic_can_be_named_by_its_id_and_an_unknown_id_is_told_apart() -> None:
    node = SimulatedNode()
    topic_id = node.create_topic("orders")
    request = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                topic_id=one, partition_data=[PartitionProduceData(index=0, records=a_batch(b"a"))]
            )
            for one in (topic_id, Uuid(b"?" * 16))
        ],
    )

    answer = node.client().call(request, 13, ProduceResponse)

    codes = [topic.partition_responses[0].error_code for topic in answer.responses]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (b"short", ErrorCode.INVALID_RECORD),
        (a_batch(b"a") + a_batch(b"b"), ErrorCode.INVALID_RECORD),
        (a_batch(b"a") + b"x", ErrorCode.INVALID_RECORD),
        (a_batch(b"x" * 1_048_600), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_records_that_are_not_one_batch_are_refused(records: bytes | None, code: ErrorCode) -> None:
    node = SimulatedNode()
    node.create_topic("orders")

    answer = node.client().call(a_produce("orders", (0, records)), 9, ProduceResponse)

    result = answer.responses[0].partition_responses[0]
    assert result.error_code == code
    assert result.error_message


def test_zstd_needs_version_7() -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    client = node.client()
    batch = a_batch(b"a" * 100, codec=Codec.ZSTD)

    assert produced(client, "orders", batch, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produced(client, "orders", batch, version=7).error_code == 0


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused_and_nothing_is_appended(acks: int) -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    client = node.client()

    assert produced(client, "orders", a_batch(b"a"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert node.replica("orders").high_watermark == 0


def test_acks_0_gets_no_answer_and_an_error_ends_the_connection() -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    client = node.client()

    client.ask(a_produce("orders", (0, a_batch(b"a")), acks=0), 9)
    assert client.frames == []
    assert client.open
    assert node.replica("orders").high_watermark == 1

    client.ask(a_produce("nothing", (0, a_batch(b"a")), acks=0), 9)
    assert client.frames == []
    assert not client.open


def test_acks_all_is_refused_before_the_append_when_too_few_are_in_sync() -> None:
    node = SimulatedNode()
    node.create_topic("orders", min_insync_replicas="2")
    client = node.client()

    assert produced(client, "orders", a_batch(b"a"), acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.replica("orders").high_watermark == 0
    assert produced(client, "orders", a_batch(b"a"), acks=1).error_code == 0


def test_a_repeated_batch_of_an_idempotent_producer_gets_its_old_offset() -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    client = node.client()
    batch = a_batch(b"a", b"b", producer=(7, 0, 0))

    first, again = produced(client, "orders", batch), produced(client, "orders", batch)
    gap = produced(client, "orders", a_batch(b"z", producer=(7, 0, 5)))
    fenced_by = produced(client, "orders", a_batch(b"c", producer=(7, 1, 0)))
    stale = produced(client, "orders", a_batch(b"d", producer=(7, 0, 2)))

    assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, 0)
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (fenced_by.error_code, fenced_by.base_offset) == (0, 2)
    assert stale.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_stored_bytes_are_the_bytes_that_came_but_for_offset_and_epoch() -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    client = node.client()
    produced(client, "orders", a_batch(b"a"))
    sent = a_batch(b"b", b"c", codec=Codec.LZ4)
    produced(client, "orders", sent)

    kept = fetched(client, "orders", 1).records

    assert kept is not None
    view = batch_at(bytearray(kept))
    assert (view.base_offset, view.leader_epoch) == (1, node.replica("orders").leader_epoch)
    assert bytes(kept)[16:] == sent[16:]


def test_with_flush_messages_1_the_answer_waits_for_the_fsync() -> None:
    node = SimulatedNode()
    node.create_topic("orders", flush_messages="1")
    client = node.client()

    client.ask(a_produce("orders", (0, a_batch(b"a"))), 9)
    assert client.frames == []
    node.aside.run_all()

    assert client.take(ProduceResponse).responses[0].partition_responses[0].error_code == 0
    assert node.replica("orders").opened().recovery_point == 1


def test_appends_that_come_while_an_fsync_runs_share_the_next_one() -> None:
    node = SimulatedNode()
    node.create_topic("orders", flush_messages="1")
    clients = [node.client() for _ in range(4)]

    clients[0].ask(a_produce("orders", (0, a_batch(b"0"))), 9)
    for client in clients[1:]:
        client.ask(a_produce("orders", (0, a_batch(b"1"))), 9)
    assert node.aside.waiting == 1, "one fsync at a time"
    node.aside.work()
    node.aside.finish()
    assert [len(client.frames) for client in clients] == [1, 0, 0, 0]
    assert node.aside.waiting == 1
    node.aside.work()
    node.aside.finish()

    assert [len(client.frames) for client in clients] == [1, 1, 1, 1]


def test_with_flush_ms_appends_wait_for_the_fsync_that_comes_in_time() -> None:
    node = SimulatedNode()
    node.create_topic("orders", flush_ms="10")
    first, second = node.client(), node.client()

    first.ask(a_produce("orders", (0, a_batch(b"a"))), 9)
    node.pass_time(9)
    second.ask(a_produce("orders", (0, a_batch(b"b"))), 9)
    node.aside.run_all()
    assert first.frames == second.frames == []
    node.pass_time(1)
    node.aside.run_all()

    assert [len(client.frames) for client in (first, second)] == [1, 1]


def test_a_repeat_of_what_is_not_durable_yet_is_not_acknowledged_before_it_is() -> None:
    node = SimulatedNode()
    node.create_topic("orders", flush_messages="1")
    first, again = node.client(), node.client()
    batch = a_batch(b"a", producer=(7, 0, 0))

    first.ask(a_produce("orders", (0, batch)), 9)
    again.ask(a_produce("orders", (0, batch)), 9)
    assert again.frames == []
    node.aside.run_all()

    assert again.take(ProduceResponse).responses[0].partition_responses[0].base_offset == 0


def test_after_a_failed_fsync_nothing_is_acknowledged_and_reads_go_on() -> None:
    node = SimulatedNode()
    node.create_topic("orders", flush_messages="1")
    client = node.client()
    produced(client, "orders", a_batch(b"kept"))

    node.files.faults.append(Fault(Kind.SYNC, errno.EIO, "orders-0", times=1))
    lost = produced(client, "orders", a_batch(b"lost"))
    later = produced(client, "orders", a_batch(b"later"))

    assert lost.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert later.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert records_of(fetched(client, "orders", 0))[0].value == b"kept"  # It comes back: test_healing.


def test_on_a_full_disk_a_produce_is_refused_and_works_again_once_there_is_room() -> None:
    node = SimulatedNode(disk_reserve_bytes="0")
    node.create_topic("orders")
    client = node.client()
    produced(client, "orders", a_batch(b"kept"))

    node.files.quota_bytes = 0
    refused = produced(client, "orders", a_batch(b"refused"))
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert ErrorCode(refused.error_code).retriable
    assert [record.value for record in records_of(fetched(client, "orders", 0))] == [b"kept"]
    node.files.quota_bytes = None

    assert produced(client, "orders", a_batch(b"more")).base_offset == 1


def test_below_the_reserve_nothing_is_appended_until_there_is_room_again() -> None:
    node = SimulatedNode(disk_reserve_bytes="1000000")
    node.create_topic("orders")
    client = node.client()
    node.files.quota_bytes = 500_000
    node.pass_time(2000)

    refused = produced(client, "orders", a_batch(b"a"))
    node.files.quota_bytes = None
    node.pass_time(2000)
    accepted = produced(client, "orders", a_batch(b"a"))

    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (accepted.error_code, accepted.base_offset) == (0, 0)


def test_old_versions_are_advertised_but_refused() -> None:
    node = SimulatedNode()
    frame = bytes([0, 0, 0, 2, 0, 0, 0, 1, 255, 255]) + bytes(10)

    with pytest.raises(ProtocolError, match="version 2"):
        node.client().session.receive(memoryview(frame))
