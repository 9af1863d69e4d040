"""A consumer's membership of its group, carried out: heartbeats, rebalances, commits (C2-C5)."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from everlog.client.core.consumer_settings import ConsumerSettings
from everlog.client.core.group_types import GroupMetadata, OffsetAndMetadata
from everlog.client.drive.link import ClusterLink
from everlog.model.topics import TopicPartition


class GroupHooks(Protocol):
    """What the consumer does when its partitions change; all are called within `poll` and `close`."""

    async def revoking(self, places: Sequence[TopicPartition]) -> None:
        """These are about to go: commit if that is automatic, call `on_revoked`, stop reading them."""
        ...

    async def lost(self, places: Sequence[TopicPartition]) -> None:
        """These are gone, and others may read them: call `on_lost`, stop reading them, commit nothing."""
        ...

    async def assigned(self, places: Sequence[TopicPartition]) -> None:
        """These were added: find where to begin, call `on_assigned`, read. Called with none too."""
        ...


class GroupSession:
    """One member of a group, from the first `poll` after `subscribe` until `close`."""

    def __init__(self, link: ClusterLink, settings: ConsumerSettings, hooks: GroupHooks) -> None:
        raise NotImplementedError

    def subscribe(self, topics: Sequence[str] | None, pattern: str | None) -> None:
        """Want these topics, or those whose whole name a pattern matches; neither: leave at the next poll."""
        raise NotImplementedError

    @property
    def assignment(self) -> Sequence[TopicPartition]:
        """What this member has, in order."""
        raise NotImplementedError

    async def poll(self) -> None:
        """Say that the application lives, and carry out the next step of a rebalance, calling hooks.

        Does not wait for brokers. Raises what the application must hear of: Refused, TimedOut.
        """
        raise NotImplementedError

    def wake_on(self, event: asyncio.Event) -> None:
        """Set this event whenever there is something for `poll` to do."""
        raise NotImplementedError

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets in this member's name; Refused if it is not in the group any more."""
        raise NotImplementedError

    async def committed(
        self, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        """The group's offsets, None where none is committed."""
        raise NotImplementedError

    def metadata(self) -> GroupMetadata:
        """In whose name offsets go into a transaction."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Revoke what is left and leave, as after `unsubscribe`; `subscribe` and `poll` begin anew."""
        raise NotImplementedError

    async def close(self) -> None:
        """Revoke what is left and leave, unless this is a static member; stop heartbeats."""
        raise NotImplementedError
