"""Light members of groups for `bench.rebalance`: the classic protocol in its two ways, and that of KIP-848.

They do what consumers do as far as partitions change hands: join, share out, give up, ask for the offsets of
what they got, and send heartbeats as often as consumers do by default or as the broker tells them. They fetch
no records. A partition counts as owned from the answer with its offset until it is given up.
"""

import asyncio
import random
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from uuid import uuid4

from bench.rebalance_shares import range_shares, sticky_shares
from everlog.model.errors import ErrorCode
from everlog.model.ids import Uuid
from everlog.wire.codec import decode_response, decode_value, encode_request, encode_value
from everlog.wire.message import Message
from everlog.wire.messages import (
    consumer_group_heartbeat,
    consumer_protocol_assignment,
    consumer_protocol_subscription,
    heartbeat,
    join_group,
    leave_group,
    offset_fetch,
    sync_group,
)

HEARTBEAT_S = 3.0
SESSION_MS = 45_000
REBALANCE_MS = 300_000
_EMBEDDED = 3
_VERSIONS = {9: 9, 11: 9, 12: 4, 13: 5, 14: 5, 68: 1}
_AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
_ELSEWHERE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Ownership:
    """Who owns each partition, and for how long nobody did since `begin`."""

    def __init__(self, partitions: int) -> None:
        self.owner: list[str | None] = [None] * partitions
        self.changed_at = time.perf_counter()
        self._free_since: list[float | None] = [None] * partitions
        self._paused_s = [0.0] * partitions
        self._before: list[str | None] = []

    def begin(self) -> None:
        """Forget the pauses so far, and note who owns what."""
        self._paused_s = [0.0] * len(self.owner)
        self._before = list(self.owner)

    def take(self, member: str, partitions: set[int]) -> None:
        """A member has got these and can read on."""
        now = self.changed_at = time.perf_counter()
        for partition in partitions:
            free_since = self._free_since[partition]
            assert self.owner[partition] is None, f"{partition} is owned by {self.owner[partition]} too"
            self._paused_s[partition] += 0.0 if free_since is None else now - free_since
            self.owner[partition] = member

    def release(self, member: str, partitions: set[int]) -> None:
        """A member has given these up."""
        now = self.changed_at = time.perf_counter()
        for partition in partitions:
            assert self.owner[partition] == member, (partition, member, self.owner[partition])
            self._free_since[partition] = now
            self.owner[partition] = None

    def pauses_s(self) -> tuple[list[float], list[float]]:
        """The pauses of partitions that have another owner than at the beginning, and of all others."""
        moved = [was != owner for was, owner in zip(self._before, self.owner, strict=True)]
        paired = list(zip(self._paused_s, moved, strict=True))
        return [pause for pause, went in paired if went], [pause for pause, went in paired if not went]


class Member(ABC):
    """One member on a connection of its own; a task that runs until it leaves."""

    def __init__(self, port: int, group: str, topic: str, topic_id: Uuid, ownership: Ownership) -> None:
        self.owned: set[int] = set()
        self.id = ""
        self._port = port
        self._group = group
        self._topic = topic
        self._topic_id = topic_id
        self._ownership = ownership
        self._name = uuid4().hex
        self._correlation = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._task: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()

    def start(self) -> None:
        """Begin to join."""
        self._task = asyncio.create_task(self._live())

    async def leave(self) -> None:
        """Give up all partitions and say so, between two requests."""
        assert self._task is not None
        self._leaving.set()
        await self._task

    def check(self) -> None:
        """Raise what has ended this member, if anything has."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def _live(self) -> None:
        self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await self._run()
            self._give_up(self.owned)
            await self._say_goodbye()
        finally:
            self._streams[1].close()

    @abstractmethod
    async def _run(self) -> None:
        """Take part until `_leaving` is set."""

    @abstractmethod
    async def _say_goodbye(self) -> None:
        """Leave the group."""

    async def _pause(self, seconds: float) -> None:
        """Wait, or until it is time to leave."""
        try:
            await asyncio.wait_for(self._leaving.wait(), seconds)
        except TimeoutError:
            pass

    def _give_up(self, partitions: set[int]) -> None:
        self._ownership.release(self._name, partitions)
        self.owned = self.owned - partitions

    async def _take(self, partitions: set[int]) -> None:
        if not partitions:
            return
        topics = [
            offset_fetch.OffsetFetchRequestTopics(name=self._topic, partition_indexes=sorted(partitions))
        ]
        group = offset_fetch.OffsetFetchRequestGroup(group_id=self._group, topics=topics)
        answer = await self._ask(offset_fetch.OffsetFetchRequest(groups=[group], require_stable=True))
        assert isinstance(answer, offset_fetch.OffsetFetchResponse)
        assert answer.groups[0].error_code == 0, answer.groups[0].error_code
        self._ownership.take(self._name, partitions)
        self.owned = self.owned | partitions

    async def _ask(self, message: Message) -> Message:
        assert self._streams is not None
        assert message.KEY is not None
        reader, writer = self._streams
        self._correlation += 1
        version = _VERSIONS[message.KEY]
        writer.write(encode_request(message, version, self._correlation, "bench"))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        correlation, answer = decode_response(message.KEY, version, await reader.readexactly(size))
        assert correlation == self._correlation, (correlation, self._correlation)
        return answer


class ClassicMember(Member):
    """A member of the classic protocol: eager with the range assignor, or cooperative with a sticky one."""

    cooperative = False

    def __init__(self, port: int, group: str, topic: str, topic_id: Uuid, ownership: Ownership) -> None:
        super().__init__(port, group, topic, topic_id, ownership)
        self._generation = -1

    async def _run(self) -> None:
        while not self._leaving.is_set():
            if not await self._join():
                continue
            # All have just been answered at once. In a group that has run for long, they have drifted apart.
            wait_s = random.uniform(0, HEARTBEAT_S)
            while not self._leaving.is_set():
                await self._pause(wait_s)
                wait_s = HEARTBEAT_S
                if not self._leaving.is_set() and not await self._heartbeat():
                    break

    async def _heartbeat(self) -> bool:
        answer = await self._ask(
            heartbeat.HeartbeatRequest(
                group_id=self._group, generation_id=self._generation, member_id=self.id
            )
        )
        assert isinstance(answer, heartbeat.HeartbeatResponse)
        assert answer.error_code in (0, *_AGAIN), answer.error_code
        return answer.error_code == 0

    async def _join(self) -> bool:
        """Join and sync once; whether the member may rest now."""
        if not self.cooperative:
            self._give_up(self.owned)
        joined = await self._ask(self._join_request())
        assert isinstance(joined, join_group.JoinGroupResponse)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = joined.member_id
            return False
        if joined.error_code in _ELSEWHERE:
            await self._pause(0.1)
            return False
        assert joined.error_code in (0, *_AGAIN), joined.error_code
        self._generation = joined.generation_id
        shares = self._shares(joined) if joined.leader == self.id else []
        synced = await self._ask(
            sync_group.SyncGroupRequest(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self.id,
                protocol_type="consumer",
                protocol_name=joined.protocol_name,
                assignments=shares,
            )
        )
        assert isinstance(synced, sync_group.SyncGroupResponse)
        if synced.error_code in _AGAIN:
            return False
        assert synced.error_code == 0, synced.error_code
        return await self._adopt(_assigned(synced.assignment))

    async def _adopt(self, assigned: set[int]) -> bool:
        revoked = self.owned - assigned
        self._give_up(revoked)
        await self._take(assigned - self.owned)
        # What was given up can be handed on only in the rebalance that this member begins by joining again.
        return not revoked

    def _join_request(self) -> join_group.JoinGroupRequest:
        owned = [
            consumer_protocol_subscription.TopicPartition(topic=self._topic, partitions=sorted(self.owned))
        ]
        subscription = consumer_protocol_subscription.ConsumerProtocolSubscription(
            topics=[self._topic], owned_partitions=owned, generation_id=self._generation
        )
        metadata = struct.pack(">h", _EMBEDDED) + encode_value(subscription, _EMBEDDED)
        name = "cooperative-sticky" if self.cooperative else "range"
        return join_group.JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[join_group.JoinGroupRequestProtocol(name=name, metadata=metadata)],
        )

    def _shares(self, joined: join_group.JoinGroupResponse) -> list[sync_group.SyncGroupRequestAssignment]:
        owned = {member.member_id: _owned(member.metadata) for member in joined.members}
        count = len(self._ownership.owner)
        shares = sticky_shares(owned, count) if self.cooperative else range_shares(sorted(owned), count)
        return [
            sync_group.SyncGroupRequestAssignment(
                member_id=member, assignment=_assignment(self._topic, share)
            )
            for member, share in shares.items()
        ]

    async def _say_goodbye(self) -> None:
        await self._ask(
            leave_group.LeaveGroupRequest(
                group_id=self._group, members=[leave_group.MemberIdentity(member_id=self.id)]
            )
        )


class CooperativeMember(ClassicMember):
    """It keeps what it has while the group finds itself."""

    cooperative = True


class ConsumerMember(Member):
    """A member of the newer protocol: the broker shares out, and sets the pace."""

    async def _run(self) -> None:
        self.id = self._name
        epoch, tell_owned = 0, True
        while not self._leaving.is_set():
            answer = await self._ask(self._heartbeat(epoch, tell_owned))
            assert isinstance(answer, consumer_group_heartbeat.ConsumerGroupHeartbeatResponse)
            if answer.error_code in _ELSEWHERE:
                await self._pause(0.1)
                continue
            assert answer.error_code == 0, (answer.error_code, answer.error_message)
            epoch = answer.member_epoch
            before = self.owned
            if answer.assignment is not None:
                target = {
                    partition for each in answer.assignment.topic_partitions for partition in each.partitions
                }
                self._give_up(self.owned - target)
                await self._take(target - self.owned)
            # A change is told at once, as consumers do; otherwise the broker's interval holds.
            tell_owned = self.owned != before
            if not tell_owned:
                await self._pause(answer.heartbeat_interval_ms / 1000)

    def _heartbeat(
        self, epoch: int, tell_owned: bool
    ) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
        owned = consumer_group_heartbeat.TopicPartitions(
            topic_id=self._topic_id, partitions=sorted(self.owned)
        )
        return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_MS if epoch == 0 else -1,
            subscribed_topic_names=[self._topic] if epoch == 0 else None,
            topic_partitions=([owned] if self.owned else []) if tell_owned else None,
        )

    async def _say_goodbye(self) -> None:
        await self._ask(
            consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id=self._group, member_id=self.id, member_epoch=-1
            )
        )


WAYS: dict[str, type[Member]] = {
    "classic, eager": ClassicMember,
    "classic, cooperative": CooperativeMember,
    "consumer (KIP-848)": ConsumerMember,
}


def _owned(metadata: bytes) -> set[int]:
    read = decode_value(consumer_protocol_subscription.ConsumerProtocolSubscription, _EMBEDDED, metadata[2:])
    return {partition for each in read.owned_partitions for partition in each.partitions}


def _assignment(topic: str, share: Sequence[int]) -> bytes:
    partitions = [consumer_protocol_assignment.TopicPartition(topic=topic, partitions=list(share))]
    assignment = consumer_protocol_assignment.ConsumerProtocolAssignment(assigned_partitions=partitions)
    return struct.pack(">h", _EMBEDDED) + encode_value(assignment, _EMBEDDED)


def _assigned(assignment: bytes) -> set[int]:
    if not assignment:
        return set()
    read = decode_value(consumer_protocol_assignment.ConsumerProtocolAssignment, _EMBEDDED, assignment[2:])
    return {partition for each in read.assigned_partitions for partition in each.partitions}
