"""ListPartitionReassignments, version 0. No topics at all asks for every partition that is being moved."""

from everlog.broker.desk.seat import Seat
from everlog.broker.exchange import Exchange
from everlog.controller.reassignment import reassignments
from everlog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(desk: Seat, request: ListPartitionReassignmentsRequest, exchange: Exchange) -> None:
    """Say what is being moved, and between whom."""
    wanted = None
    if request.topics is not None:
        wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for name, number, partition in reassignments(desk.image, wanted):
        topics.setdefault(name, []).append(
            OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding),
                removing_replicas=list(partition.removing),
            )
        )
    exchange.answer(
        ListPartitionReassignmentsResponse(
            error_message=None,
            topics=[OngoingTopicReassignment(name=name, partitions=ones) for name, ones in topics.items()],
        )
    )
