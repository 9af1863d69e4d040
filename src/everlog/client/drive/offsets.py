"""Offsets of partitions, asked of their leaders (L7, C7)."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from everlog.client.core.consumer.epoch_ends import epoch_end_requests, read_epoch_ends
from everlog.client.core.consumer.list_offsets import (
    TimedOffset,
    read_timed_offsets,
    timed_offsets_requests,
)
from everlog.client.core.errors import TimedOut, Unreachable, refusal
from everlog.client.drive.link import ClusterLink
from everlog.model.errors import ErrorCode, EverlogError
from everlog.model.topics import TopicPartition
from everlog.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from everlog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)


@dataclass(slots=True)
class Told:
    """What the leaders said when they were asked once; partitions in neither map are to be asked again."""

    offsets: dict[TopicPartition, TimedOffset | None] = field(
        default_factory=dict[TopicPartition, TimedOffset | None]
    )
    ends: dict[TopicPartition, int | None] = field(default_factory=dict[TopicPartition, int | None])
    refused: dict[TopicPartition, EverlogError] = field(default_factory=dict[TopicPartition, EverlogError])
    last_error: EverlogError | None = None

    def missing(self, places: Collection[TopicPartition]) -> list[TopicPartition]:
        """Those of which nothing was heard."""
        return [
            place
            for place in places
            if place not in self.offsets and place not in self.ends and place not in self.refused
        ]


async def ask_offsets(
    link: ClusterLink, wanted: Mapping[TopicPartition, int], *, read_committed: bool
) -> Told:
    """Ask the leaders once for the offset of a moment in each partition."""
    requests, _ = timed_offsets_requests(
        wanted, link.view, read_committed=read_committed, timeout_ms=int(link.timeout * 1000)
    )
    told = Told()

    async def ask(node: int, request: ListOffsetsRequest) -> None:
        try:
            answers = read_timed_offsets(await link.call_node(node, request, ListOffsetsResponse))
        except EverlogError as error:
            _note_failure(
                told, error, [(t.name, p.partition_index) for t in request.topics for p in t.partitions]
            )
            return
        told.offsets.update(answers.offsets)
        told.refused.update(answers.refused)
        told.last_error = answers.last_error or told.last_error

    await asyncio.gather(*(ask(node, request) for node, request in requests.items()))
    return told


async def ask_epoch_ends(link: ClusterLink, epochs: Mapping[TopicPartition, int]) -> Told:
    """Ask the leaders once where their logs leave an epoch."""
    requests, _ = epoch_end_requests(epochs, link.view)
    told = Told()

    async def ask(node: int, request: OffsetForLeaderEpochRequest) -> None:
        try:
            answers = read_epoch_ends(await link.call_node(node, request, OffsetForLeaderEpochResponse))
        except EverlogError as error:
            _note_failure(told, error, [(t.topic, p.partition) for t in request.topics for p in t.partitions])
            return
        told.ends.update(answers.ends)
        told.refused.update(answers.refused)
        told.last_error = answers.last_error or told.last_error

    await asyncio.gather(*(ask(node, request) for node, request in requests.items()))
    return told


async def list_offsets(
    link: ClusterLink,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout: float | None = None,
) -> dict[TopicPartition, TimedOffset | None]:
    """The offset of a moment in each partition, None where no record is that young.

    EARLIEST, LATEST and MAX_TIMESTAMP are moments too. Leaders that move are followed until the time-out;
    Refused if there is no such partition, TimedOut names one that was not to be had.
    """
    limit = link.timeout if timeout is None else timeout
    deadline = asyncio.get_running_loop().time() + limit
    found: dict[TopicPartition, TimedOffset | None] = {}
    error: EverlogError | None = None
    backoff = link.backoff()
    stale = {place.topic for place in wanted if link.view.partition(place) is None}
    try:
        async with asyncio.timeout(limit):
            while len(found) < len(wanted):
                left = {place: at for place, at in wanted.items() if place not in found}
                try:
                    if stale:
                        await _learn_leaders(link, stale, left, limit)
                    told = await ask_offsets(link, left, read_committed=read_committed)
                except (Unreachable, TimedOut) as failure:
                    told = Told(last_error=failure)
                for refused in told.refused.values():
                    raise refused
                found.update(told.offsets)
                stale = {place.topic for place in told.missing(left)}
                error = told.last_error or error
                if stale and not await link.pause(backoff, deadline):
                    break
    except TimeoutError:
        pass
    missing = next((place for place in wanted if place not in found), None)
    if missing is None:
        return found
    reason = f": {error}" if error is not None else ""
    raise TimedOut(f"offsets of {missing} are not to be had within {limit:g} s{reason}")


async def _learn_leaders(
    link: ClusterLink, topics: Collection[str], places: Collection[TopicPartition], limit: float
) -> None:
    """Ask who leads; Refused if a topic has no such partition."""
    for topic in await link.topics(topics, timeout=limit):
        for place in places:
            if place.topic == topic.name and place.partition not in topic.partitions:
                has = f"{topic.name} has partitions {sorted(topic.partitions)}"
                raise refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, has, f"partition {place}")


def _note_failure(told: Told, error: EverlogError, asked: list[tuple[str, int]]) -> None:
    told.last_error = error
    if not error.retriable:
        for topic, partition in asked:
            told.refused[TopicPartition(topic, partition)] = error
