"""Requests about groups and offsets, as clients send them, in any version."""

from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from everlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from everlog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from tests.unit.broker.handlers.nodes import SimNode

Partition = OffsetFetchResponsePartition | OffsetFetchResponsePartitions
MANY_GROUPS, TOPIC_IDS = 8, 10


def find_coordinator(node: SimNode, group: str = "g", key_type: int = 0) -> None:
    """Ask for a coordinator, which makes the internal topic, and expect one."""
    answer = node.ask(
        FindCoordinatorRequest(coordinator_keys=[group], key_type=key_type), 4, FindCoordinatorResponse
    )
    assert [one.error_code for one in answer.coordinators] == [0], answer


def a_commit(
    group: str,
    topic: str,
    *offsets: tuple[int, int],
    topic_id: Uuid = NO_UUID,
    member: tuple[str, int] = ("", -1),
    metadata: str | None = None,
    leader_epoch: int = -1,
) -> OffsetCommitRequest:
    """A commit of partitions and offsets of one topic; its id is only sent from version 10 on."""
    member_id, epoch = member
    return OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=leader_epoch,
                        committed_metadata=metadata,
                    )
                    for partition, offset in offsets
                ],
            )
        ],
    )


def commit(node: SimNode, request: OffsetCommitRequest, version: int = 9) -> list[int]:
    """Commit, and return the error of each partition."""
    answer = node.ask(request, version, OffsetCommitResponse)
    return [one.error_code for topic in answer.topics for one in topic.partitions]


def fetch_one(
    node: SimNode,
    group: str,
    topic: str,
    partition: int = 0,
    *,
    version: int = 9,
    topic_id: Uuid = NO_UUID,
    stable: bool = False,
) -> Partition:
    """What the node says of one partition, whatever shape the version gives it."""
    if version < MANY_GROUPS:
        one = OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])
        request = OffsetFetchRequest(group_id=group, topics=[one], require_stable=stable)
        answer = node.ask(request, version, OffsetFetchResponse)
        assert answer.error_code == 0, answer
        return answer.topics[0].partitions[0]
    many = OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[many])], require_stable=stable
    )
    answer = node.ask(request, version, OffsetFetchResponse)
    assert answer.groups[0].error_code == 0, answer
    return answer.groups[0].topics[0].partitions[0]


def committed_offset(node: SimNode, group: str, topic: str, partition: int = 0) -> int:
    """The offset that a fetch answers; -1 for none."""
    return fetch_one(node, group, topic, partition).committed_offset
