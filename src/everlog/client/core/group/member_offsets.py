"""A member's own commits, and the offsets that it begins at: requests and answers (C5).

Where the ids of all topics are known they are used (OffsetCommit and OffsetFetch v10), so that offsets of a
topic never become those of another that was made under its name. A member of the consumer protocol also says
who it is when it asks.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from everlog.client.core.errors import refusal
from everlog.client.core.group.offsets import LAST_VERSION_BY_NAME, NO_OFFSET
from everlog.client.core.group.subscription import by_topic
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.core.metadata import ClusterView
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.topics import TopicPartition
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

_Entry = OffsetFetchResponsePartition | OffsetFetchResponsePartitions

FIRST_FETCH_OF_GROUPS = 8
"""The version of OffsetFetch in which groups became a list."""
FIRST_STABLE_FETCH = 7


@dataclass(frozen=True, slots=True)
class TopicIds:
    """The ids of the topics in one request, if all are known."""

    by_name: Mapping[str, Uuid]

    @classmethod
    def of(cls, places: Collection[TopicPartition], view: ClusterView) -> "TopicIds":
        """Those that a view knows of."""
        return cls({place.topic: view.topic_id(place.topic) for place in places})

    @property
    def at_most(self) -> int | None:
        """The newest version that can be used."""
        return LAST_VERSION_BY_NAME if NO_UUID in self.by_name.values() else None

    def name(self, name: str, topic_id: Uuid) -> str:
        """The topic that an answer is about, by its name or its id."""
        return name or next((known for known, one in self.by_name.items() if one == topic_id), "")


def commit_request(
    who: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: TopicIds
) -> OffsetCommitRequest:
    """Ask for offsets to be committed."""
    return OffsetCommitRequest(
        group_id=who.group_id,
        generation_id_or_member_epoch=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=ids.by_name[name],
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[TopicPartition(name, index)].offset,
                        committed_leader_epoch=offsets[TopicPartition(name, index)].leader_epoch,
                        committed_metadata=offsets[TopicPartition(name, index)].metadata,
                    )
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(offsets).items()
        ],
    )


def commit_problem(answer: OffsetCommitResponse, group_id: str, ids: TopicIds) -> Refused | None:
    """Why a commit was not made as a whole, if it was not."""
    for topic in answer.topics:
        for entry in topic.partitions:
            if entry.error_code != ErrorCode.NONE:
                place = TopicPartition(ids.name(topic.name, topic.topic_id), entry.partition_index)
                return refusal(
                    entry.error_code, _meaning(entry.error_code), f"group {group_id!r}, commit of {place}"
                )
    return None


def fetch_request(
    group_id: str, who: GroupMetadata | None, places: Collection[TopicPartition], ids: TopicIds, version: int
) -> OffsetFetchRequest:
    """Ask for committed offsets that no open transaction may still change (KIP-447).

    `who` asks, if it is a member of the consumer protocol.
    """
    topics = by_topic(places)
    if version < FIRST_FETCH_OF_GROUPS:
        return OffsetFetchRequest(
            group_id=group_id,
            topics=[
                OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in topics.items()
            ],
            require_stable=version >= FIRST_STABLE_FETCH,
        )
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        topics=[
            OffsetFetchRequestTopics(name=name, topic_id=ids.by_name[name], partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
    )
    if who is not None:
        group.member_id, group.member_epoch = who.member_id, who.generation
    return OffsetFetchRequest(groups=[group], require_stable=True)


def read_fetched(
    answer: OffsetFetchResponse, group_id: str, ids: TopicIds
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """The offsets by partition, None where none is committed; Refused for any error."""
    about = f"group {group_id!r}"
    for code in (answer.error_code, *(group.error_code for group in answer.groups)):
        if code != ErrorCode.NONE:
            raise refusal(code, _meaning(code), about)
    found: dict[TopicPartition, OffsetAndMetadata | None] = {}
    old: list[tuple[str, _Entry]] = [
        (topic.name, entry) for topic in answer.topics for entry in topic.partitions
    ]
    new: list[tuple[str, _Entry]] = [
        (ids.name(topic.name, topic.topic_id), entry)
        for group in answer.groups
        for topic in group.topics
        for entry in topic.partitions
    ]
    for name, entry in old + new:
        place = TopicPartition(name, entry.partition_index)
        if entry.error_code != ErrorCode.NONE:
            raise refusal(entry.error_code, None, f"{about}, offset of {place}")
        found[place] = (
            None
            if entry.committed_offset == NO_OFFSET
            else OffsetAndMetadata(entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch)
        )
    return found


_MEANINGS = {
    ErrorCode.REBALANCE_IN_PROGRESS: "the group rebalances; poll, then commit what is assigned then",
    ErrorCode.ILLEGAL_GENERATION: "the group has rebalanced without this member, others have its partitions",
    ErrorCode.UNKNOWN_MEMBER_ID: "this consumer is not in the group any more, others have its partitions",
    ErrorCode.FENCED_INSTANCE_ID: "another member has the group_instance_id of this one",
}


def _meaning(number: int) -> str | None:
    return next((text for code, text in _MEANINGS.items() if code == number), None)
