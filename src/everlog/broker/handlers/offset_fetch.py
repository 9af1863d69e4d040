"""OffsetFetch, versions 1 to 10.

2 may ask for all topics and answers an error of the whole, 5 has leader epochs, 6 is flexible, 7 may refuse
what an open transaction will change, 8 asks for several groups, 9 names the member (KIP-848), 10 names topics
by id.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from everlog.broker.coordinator_errors import coordinator_error
from everlog.broker.exchange import Exchange
from everlog.broker.gather import gather
from everlog.coordinator.group.offsets import Fetched, FetchOffsets
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_ERROR = 2
_FIRST_WITH_GROUPS = 8
_FIRST_WITH_IDS = 10
_NOTHING = -1

_Answered = Callable[[OffsetFetchResponseGroup], None]


def handle(broker: "Broker", request: OffsetFetchRequest, exchange: Exchange) -> None:
    """Tell what each group has committed; one group's trouble is not the others'."""
    version = exchange.api_version
    if version >= _FIRST_WITH_GROUPS:
        groups = _distinct(request.groups)
    else:
        topics = None
        if request.topics is not None:
            topics = [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ]
        groups = [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]

    def done(found: list[OffsetFetchResponseGroup]) -> None:
        if version >= _FIRST_WITH_GROUPS:
            exchange.answer(OffsetFetchResponse(groups=found))
        else:
            exchange.answer(_of_one_group(found[0], groups[0], version))

    jobs = [partial(_fetch, broker, group, version, request.require_stable) for group in groups]
    gather(jobs, done)


def _distinct(groups: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """The groups asked for, those of which all is wanted once each."""
    whole: set[str] = set()
    distinct: list[OffsetFetchRequestGroup] = []
    for group in groups:
        if group.topics is None:
            if group.group_id in whole:
                continue
            whole.add(group.group_id)
        distinct.append(group)
    return distinct


def _fetch(
    broker: "Broker",
    asked: OffsetFetchRequestGroup,
    version: int,
    require_stable: bool,
    answered: _Answered,
) -> None:
    """Ask for one group."""
    by_id = version >= _FIRST_WITH_IDS
    unknown: list[OffsetFetchRequestTopics] = []
    wanted: list[tuple[str, int]] | None = None
    if asked.topics is not None:
        wanted = []
        for topic in asked.topics:
            if by_id:
                known = broker.image.topics_by_id.get(topic.topic_id)
                if known is None:
                    unknown.append(topic)
                    continue
                topic.name = known.name
            wanted.extend((topic.name, partition) for partition in topic.partition_indexes)
        # What a commit has beside its offset may be long, and is told once however often it is asked for.
        wanted = list(dict.fromkeys(wanted))

    def done(reply: list[Fetched] | Refused | StorageError) -> None:
        answer = OffsetFetchResponseGroup(group_id=asked.group_id)
        if isinstance(reply, Refused | StorageError):
            answer.error_code = coordinator_error(reply)
        else:
            answer.topics = [*_topics(broker, reply, by_id), *map(_unknown_topic, unknown)]
        answered(answer)

    command = FetchOffsets(
        asked.group_id,
        None if wanted is None else tuple(wanted),
        asked.member_id,
        asked.member_epoch,
        require_stable,
    )
    try:
        shard = broker.coordinators.group_shard(asked.group_id)
    except Refused as refused:
        done(refused)
        return
    shard.offsets.fetch(command, done)


def _topics(broker: "Broker", found: list[Fetched], by_id: bool) -> list[OffsetFetchResponseTopics]:
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for one in found:
        topic = topics.get(one.topic)
        if topic is None:
            topic_id = _id_of(broker, one.topic) if by_id else NO_UUID
            if topic_id is None:
                continue  # It has no name that the client could know it by.
            topic = topics[one.topic] = OffsetFetchResponseTopics(name=one.topic, topic_id=topic_id)
        topic.partitions.append(_partition(one))
    return list(topics.values())


def _id_of(broker: "Broker", name: str) -> Uuid | None:
    topic = broker.image.topics.get(name)
    return None if topic is None else topic.id


def _partition(one: Fetched) -> OffsetFetchResponsePartitions:
    committed = one.committed
    if committed is None:
        return OffsetFetchResponsePartitions(
            partition_index=one.partition, committed_offset=_NOTHING, metadata="", error_code=one.error
        )
    return OffsetFetchResponsePartitions(
        partition_index=one.partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _unknown_topic(asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=asked.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=partition,
                committed_offset=_NOTHING,
                metadata="",
                error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
            for partition in asked.partition_indexes
        ],
    )


def _of_one_group(
    found: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, version: int
) -> OffsetFetchResponse:
    """The answer as it was before several groups could be asked for."""
    if found.error_code and version < _FIRST_WITH_ERROR:
        return OffsetFetchResponse(topics=_all_refused(asked, found.error_code))
    return OffsetFetchResponse(
        error_code=found.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=one.partition_index,
                        committed_offset=one.committed_offset,
                        committed_leader_epoch=one.committed_leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in found.topics
        ],
    )


def _all_refused(asked: OffsetFetchRequestGroup, code: int) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=partition, committed_offset=_NOTHING, metadata="", error_code=code
                )
                for partition in topic.partition_indexes
            ],
        )
        for topic in asked.topics or ()
    ]
