"""A request as buffers to be written one after another: the same bytes, and large batches not copied."""

import pytest

from everlog.wire.codec import encode_request, encode_request_pieces
from everlog.wire.messages.metadata import MetadataRequest
from everlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def produce(*sizes: int) -> ProduceRequest:
    partitions = [
        PartitionProduceData(index=index, records=bytearray([index]) * size)
        for index, size in enumerate(sizes)
    ]
    return ProduceRequest(
        acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=partitions)]
    )


@pytest.mark.parametrize("version", [3, 8, 9, 12])
@pytest.mark.parametrize(
    "sizes",
    [(), (10,), (8191,), (8192,), (9000, 9000), (10, 9000, 10), (5000, 5000), (9000, 10, 9000, 70_000)],
)
def test_the_pieces_are_the_frame(version: int, sizes: tuple[int, ...]) -> None:
    request = produce(*sizes)

    pieces = encode_request_pieces(request, version, 7, "me")

    assert b"".join(pieces) == encode_request(request, version, 7, "me")


@pytest.mark.parametrize("client_id", [None, "", "me"])
def test_a_small_request_is_one_piece(client_id: str | None) -> None:
    request = MetadataRequest(topics=[])

    assert encode_request_pieces(request, 12, 7, client_id) == [encode_request(request, 12, 7, client_id)]


def test_large_batches_are_passed_on_and_small_parts_joined() -> None:
    request = produce(100, 50_000, 100, 60_000)
    records = [data.records for data in request.topic_data[0].partition_data]

    pieces = encode_request_pieces(request, 12, 7, "me")

    assert len(pieces) == 5
    assert pieces[1] is records[1]
    assert pieces[3] is records[3]
