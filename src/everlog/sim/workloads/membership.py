"""Members of groups: what both protocols share, which is what a consumer needs of them."""

from collections.abc import Mapping
from typing import Protocol

from everlog.model.errors import ErrorCode
from everlog.sim.history import Kind, Membership, Outcome
from everlog.sim.script import Lost, Script
from everlog.sim.workloads.actor import LOADING, Actor, Topic, error_name
from everlog.sim.workloads.routing import GROUP
from everlog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

FENCED = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""Answers by which a member learns that the group has moved on without it."""


class Member(Protocol):
    """A member of a group, of either protocol."""

    @property
    def membership(self) -> Membership:
        """Who it is, as its requests say."""
        ...

    @property
    def owned(self) -> Mapping[str, int]:
        """The partitions that it may work on now, and since when it has them."""
        ...

    def keep(self) -> Script[None]:
        """Join if need be, and let the coordinator know that it lives if that is due."""
        ...

    def doubt(self, error: int) -> None:
        """Take note of an error that says that the group has moved on."""
        ...

    def leave(self) -> Script[None]:
        """Give everything up."""
        ...


class Holdings:
    """What a member owns since when, and how the history learns of it."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._since: dict[str, tuple[int, Membership]] = {}

    @property
    def since(self) -> dict[str, int]:
        """What is owned now, and since when."""
        return {partition: start for partition, (start, _) in self._since.items()}

    @property
    def partitions(self) -> frozenset[str]:
        """What is owned now."""
        return frozenset(self._since)

    def take(self, partitions: frozenset[str], membership: Membership) -> None:
        """Own these from now on."""
        for partition in sorted(partitions - self.partitions):
            self._since[partition] = (self._actor.now(), membership)

    def release(self, partitions: frozenset[str], *, in_time: bool) -> None:
        """Give these up, before anybody is told; after a silence they may have been given away already."""
        self._end(partitions, Outcome.OK if in_time else Outcome.INFO)

    def lose(self) -> None:
        """They belong to somebody else, nobody knows since when."""
        self._end(self.partitions, Outcome.INFO)

    def _end(self, partitions: frozenset[str], outcome: Outcome) -> None:
        for partition in sorted(partitions & self.partitions):
            start, membership = self._since.pop(partition)
            self._actor.note(Kind.OWN, outcome, start, partitions=(partition,), membership=membership)


def fetch_committed(
    actor: Actor, membership: Membership, topics: list[Topic], *, final: bool = False
) -> Script[Mapping[str, int] | int]:
    """The offsets that a group has committed, or the error by which a member learns that it was fenced."""
    newer = membership.protocol == "consumer" and membership.generation >= 0
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=membership.group,
                member_id=membership.member if newer else None,
                member_epoch=membership.generation if newer else -1,
                topics=[
                    OffsetFetchRequestTopics(name=topic.name, partition_indexes=list(range(topic.partitions)))
                    for topic in topics
                ],
            )
        ],
        require_stable=True,
    )
    while True:
        start = actor.now()
        try:
            version = 9 if newer else 8
            answer = yield from actor.routing.ask_coordinator(
                OffsetFetchResponse, request, version, membership.group, GROUP, "group"
            )
        except Lost:
            if actor.stopping and not final:
                return ErrorCode.NETWORK_EXCEPTION
            yield from actor.pause(100)
            continue
        group = answer.groups[0]
        parts = [(topic.name, part) for topic in group.topics for part in topic.partitions]
        errors = {group.error_code, *(part.error_code for _, part in parts)} - {ErrorCode.NONE}
        if not errors:
            offsets = {f"{name}-{part.partition_index}": part.committed_offset for name, part in parts}
            actor.note(Kind.COMMITTED, Outcome.OK, start, membership=membership, offsets=offsets, final=final)
            return offsets
        fenced = errors & FENCED
        if fenced:
            return max(fenced)
        if not errors <= LOADING | {ErrorCode.UNSTABLE_OFFSET_COMMIT}:
            what = ", ".join(error_name(error) for error in sorted(errors))
            actor.setting.complain(actor.name, f"OffsetFetch answered {what}")
        if actor.stopping and not final:
            return max(errors)
        yield from actor.pause(100)
