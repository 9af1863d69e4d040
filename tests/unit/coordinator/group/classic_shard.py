"""One shard of groups on a fake journal and a clock that stands still, spoken to as the handlers do."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from everlog.coordinator.group.classic_commands import (
    GroupProtocol,
    Heard,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Leaver,
    Left,
    Synced,
    SyncGroup,
)
from everlog.coordinator.group.classic_group import ClassicGroup
from everlog.coordinator.group.shard import GroupShard
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.shards import ShardWorld
from everlog.metadata.image import EMPTY_IMAGE
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Instant, Offset, ProducerId, Timestamp
from everlog.model.settings import broker_settings
from everlog.model.topics import TopicPartition
from everlog.sim.alarm import SimAlarm
from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock

T = TypeVar("T")

GROUP = "g"
RANGE = (GroupProtocol("range", b"topics"),)
SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3_000

Record = tuple[bytes, bytes | None]


class FakeJournal:
    """Keeps records in memory. It can refuse them, or leave open whether they are committed."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.fails = False
        """Whether appends are refused."""
        self.holds = False
        """Whether commits wait for `commit`."""
        self._waiting: list[Callable[[StorageError | None], None]] = []

    def append(self, records: Sequence[Record], producer: ProducerStamp | None, wall: Timestamp) -> Offset:
        if self.fails:
            raise StorageError("the disk is full")
        self.records.extend(records)
        return Offset(len(self.records))

    def when_committed(self, end: Offset, done: Callable[[StorageError | None], None]) -> None:
        if self.holds:
            self._waiting.append(done)
        else:
            done(None)

    def commit(self, error: StorageError | None = None) -> None:
        """Let all that waits be committed, or tell why it never will be."""
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(error)


class Asked(Generic[T]):
    """A request and the one answer that it is owed."""

    def __init__(self) -> None:
        self._answers: list[T] = []

    def __call__(self, answer: T) -> None:
        assert not self._answers, f"answered {self._answers[0]}, and again {answer}"
        self._answers.append(answer)

    @property
    def is_open(self) -> bool:
        return not self._answers

    @property
    def answer(self) -> T:
        assert self._answers, "not answered yet"
        return self._answers[0]


def _nobody_takes(_done: Callable[[ProducerId | Refused | StorageError], None]) -> None:
    raise AssertionError("groups need no producer ids")


class ClassicShard:
    """A shard that serves, and can be thrown away and read again from its journal."""

    def __init__(self, **settings: str) -> None:
        self._configure(settings)
        self.journal = FakeJournal()
        self.clock = SimClock()
        self._random = SimRandom("groups")
        self.start()

    def _configure(self, settings: dict[str, str]) -> None:
        given = {"node.id": "1", "process.roles": "broker,controller", "group.min.session.timeout.ms": "1"}
        given |= {key.replace("_", "."): value for key, value in settings.items()}
        self._settings = broker_settings(given)

    def restart(self, **settings: str) -> None:
        """Lose all soft state, as by a crash, and begin again with other settings."""
        self._configure(settings)
        self.start()

    def start(self) -> None:
        """Read all that the journal has, as the next coordinator does."""
        self.load()
        self.shard.machine.loaded()
        self.shard.activated(self.now)

    def load(self) -> None:
        """Read the journal, and be about to serve."""
        self.alarm = SimAlarm()
        self.shard = GroupShard(
            ShardWorld(
                partition=TopicPartition("__consumer_offsets", 0),
                epoch=0,
                journal=self.journal,
                clock=self.clock,
                random=self._random,
                alarm=self.alarm,
                settings=lambda: self._settings,
                image=lambda: EMPTY_IMAGE,
                take_producer_id=_nobody_takes,
            )
        )
        for offset, (key, value) in enumerate(self.journal.records):
            self.shard.machine.replay(key, value, Offset(offset), None)

    @property
    def now(self) -> Instant:
        return self.clock.now()

    def found(self, group_id: str = GROUP) -> ClassicGroup | None:
        """The group, if there is one."""
        group = self.shard.groups.get(group_id)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    @property
    def group(self) -> ClassicGroup:
        group = self.found()
        assert group is not None
        return group

    def pass_time(self, ms: int) -> None:
        """Let time pass, with a tick whenever the alarm was asked for."""
        end = self.now + ms
        while self.alarm.deadline is not None and self.alarm.deadline <= end:
            self.clock.advance(max(0, self.alarm.deadline - self.now))
            self.alarm.deadline = None
            self.shard.tick(self.now)
            deadline = self.shard.deadline()
            if deadline is not None:
                self.alarm.ring_by(deadline)
        self.clock.advance(end - self.now)

    # --- requests

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocols: Sequence[GroupProtocol] = RANGE,
        protocol_type: str = "consumer",
        client_id: str = "c",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        needs_member_id: bool = True,
        can_skip_assignment: bool = True,
    ) -> Asked[Joined]:
        asked: Asked[Joined] = Asked()
        command = JoinGroup(
            group_id=group_id,
            member_id=member_id,
            instance_id=instance_id,
            client_id=client_id,
            client_host="/192.0.2.7",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=tuple(protocols),
            needs_member_id=needs_member_id,
            can_skip_assignment=can_skip_assignment,
        )
        self.shard.classic.join(command, self.now, asked)
        return asked

    def take_id(self, client_id: str = "c", group_id: str = GROUP, session_ms: int = SESSION_MS) -> str:
        """The id that a newcomer is given."""
        joined = self.join(client_id=client_id, group_id=group_id, session_ms=session_ms).answer
        assert joined.error is ErrorCode.MEMBER_ID_REQUIRED
        return joined.member_id

    def sync(
        self,
        member_id: str,
        generation: int,
        *assignments: tuple[str, bytes],
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Asked[Synced]:
        asked: Asked[Synced] = Asked()
        command = SyncGroup(GROUP, member_id, instance_id, generation, protocol_type, protocol, assignments)
        self.shard.classic.sync(command, self.now, asked)
        return asked

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        return self.beat(member_id, generation, instance_id).answer.error

    def beat(self, member_id: str, generation: int, instance_id: str | None = None) -> Asked[Heard]:
        asked: Asked[Heard] = Asked()
        self.shard.classic.heartbeat(Heartbeat(GROUP, member_id, instance_id, generation), self.now, asked)
        return asked

    def leave(self, *leavers: str | Leaver) -> Asked[Left]:
        asked: Asked[Left] = Asked()
        named = tuple(Leaver(one) if isinstance(one, str) else one for one in leavers)
        self.shard.classic.leave(LeaveGroup(GROUP, named), self.now, asked)
        return asked

    def left(self, *leavers: str | Leaver) -> list[ErrorCode]:
        """What became of each."""
        return [one.error for one in self.leave(*leavers).answer.departures]

    # --- whole phases

    def preparing(self, count: int = 1) -> list[str]:
        """A group that waits for more members to come; returns those that it has."""
        ids = [self.take_id() for _ in range(count)]
        self.parked = [self.join(member_id) for member_id in ids]
        return ids

    def completing(self, count: int = 1) -> list[str]:
        """A group whose members have joined; the first one leads generation 1."""
        ids = self.preparing(count)
        self.pass_time(2 * INITIAL_DELAY_MS)
        assert [asked.answer.error for asked in self.parked] == [ErrorCode.NONE] * count
        return ids

    def stable(self, count: int = 1) -> list[str]:
        """A group in generation 1, with an assignment for each member that names it."""
        ids = self.completing(count)
        return self.settle(ids, 1)

    def settle(self, ids: list[str], generation: int) -> list[str]:
        """Let the first, who leads, bring assignments, and all others ask for theirs."""
        assert self.group.members.leader == ids[0]
        asked = [self.sync(ids[0], generation, *((one, one.encode()) for one in ids))]
        asked += [self.sync(one, generation) for one in ids[1:]]
        assert [one.answer.assignment for one in asked] == [one.encode() for one in ids]
        return ids
