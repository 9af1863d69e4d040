"""Requests from batches, and the verdicts on answers (P3, P4)."""

from everlog.client.core.writer_batches import PendingBatch
from everlog.client.core.writer_plan import Delivered, ProducerIdentity, SendPlan
from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_UUID, Instant
from everlog.model.topics import TopicPartition
from everlog.records.batch import batch_at
from everlog.records.builder import NewRecord
from everlog.records.compression import Codec
from everlog.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.unit.client.builders import ORDERS_ID, a_view

MEBIBYTE = 1 << 20


def a_plan(*, idempotent: bool = False, codec: Codec = Codec.NONE) -> SendPlan:
    plan = SendPlan(acks=-1, codec=codec, level=None, timeout_ms=1000)
    if idempotent:
        plan.identity = ProducerIdentity(7, 0)
    return plan


def a_pending(partition: int, count: int = 1, size: int = 10) -> PendingBatch:
    records = [NewRecord(None, bytes(size), (), 1000)] * count
    return PendingBatch(TopicPartition("orders", partition), Instant(0), records, size * count)


def an_answer(*partitions: PartitionProduceResponse) -> ProduceResponse:
    return ProduceResponse(
        responses=[TopicProduceResponse(topic_id=ORDERS_ID, partition_responses=list(partitions))]
    )


def test_batches_of_several_partitions_share_a_request_to_their_leader() -> None:
    requests, leaderless = a_plan().group(
        [a_pending(0), a_pending(1), a_pending(2)], a_view(1, 2, 1), MEBIBYTE
    )

    assert [(one.node_id, [batch.place.partition for batch in one.batches]) for one in requests] == [
        (1, [0, 2]),
        (2, [1]),
    ]
    assert not leaderless


def test_two_batches_of_a_partition_go_in_two_requests_in_order() -> None:
    first, second = a_pending(0), a_pending(0)

    requests, _ = a_plan().group([first, second], a_view(1), MEBIBYTE)

    assert [list(one.batches) for one in requests] == [[first], [second]]


def test_a_request_stays_below_its_bound() -> None:
    requests, _ = a_plan().group([a_pending(0, size=600), a_pending(1, size=600)], a_view(1, 1), 1000)

    assert len(requests) == 2


def test_batches_without_a_leader_are_given_back() -> None:
    lost = a_pending(1)

    requests, leaderless = a_plan().group([a_pending(0), lost], a_view(1, 9), MEBIBYTE)

    assert len(requests) == 1
    assert leaderless == [lost]


def test_sequences_count_records_within_a_partition_and_survive_a_retry() -> None:
    plan = a_plan(idempotent=True)
    first, second, other = a_pending(0, 3), a_pending(0, 2), a_pending(1)
    plan.group([first, second, other], a_view(1, 1), MEBIBYTE)
    sent = bytes(first.encoded or b"")

    plan.group([first], a_view(2, 2), MEBIBYTE)

    assert [first.base_sequence, second.base_sequence, other.base_sequence] == [0, 3, 0]
    assert first.encoded == sent
    header = batch_at(second.encoded or b"")
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 3)


def test_a_batch_is_compressed_as_asked() -> None:
    batch = a_pending(0, 50)
    a_plan(codec=Codec.ZSTD).group([batch], a_view(1), MEBIBYTE)

    assert batch_at(batch.encoded or b"").codec == Codec.ZSTD


def test_topics_without_an_id_are_marked_so_that_an_older_version_is_spoken() -> None:
    with_id, _ = a_plan().group([a_pending(0)], a_view(1), MEBIBYTE)
    without, _ = a_plan().group([a_pending(0)], a_view(1, topic_id=NO_UUID), MEBIBYTE)

    assert with_id[0].has_topic_ids
    assert not without[0].has_topic_ids


def test_each_partition_of_an_answer_has_its_own_verdict() -> None:
    plan, view = a_plan(), a_view(1, 1, 1, 1)
    batches = [a_pending(index) for index in range(4)]
    (request,), _ = plan.group(batches, view, MEBIBYTE)

    outcome = plan.read_answer(
        request,
        an_answer(
            PartitionProduceResponse(index=0, base_offset=42),
            PartitionProduceResponse(index=1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
            PartitionProduceResponse(
                index=2, error_code=ErrorCode.MESSAGE_TOO_LARGE, error_message="too big"
            ),
            PartitionProduceResponse(index=3, error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER),
        ),
        view,
    )

    assert outcome.delivered == [Delivered(batches[0], 42), Delivered(batches[3], -1)]
    assert outcome.again == [batches[1]]
    assert [str(failed.error) for failed in outcome.failed] == [
        "produce to orders-2: MESSAGE_TOO_LARGE: too big"
    ]


def test_a_partition_that_the_answer_leaves_out_has_failed() -> None:
    plan, view = a_plan(), a_view(1)
    (request,), _ = plan.group([a_pending(0)], view, MEBIBYTE)

    assert len(plan.read_answer(request, an_answer(), view).failed) == 1


def test_silence_after_acks_0_counts_as_delivered_somewhere() -> None:
    plan, view = a_plan(), a_view(1)
    (request,), _ = plan.group([a_pending(0)], view, MEBIBYTE)

    assert [one.base_offset for one in plan.read_answer(request, None, view).delivered] == [-1]
