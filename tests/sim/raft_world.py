"""A quorum of cores alone: messages late, lost and twice, nodes that crash, disks that forget."""

import heapq
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant, Offset, Uuid
from everlog.raft import events
from everlog.raft.core import RaftCore
from everlog.raft.events import Answered, Asked, Effect, Event, Gone, Installed, Synced, Ticked, Unanswered
from everlog.raft.messages import (
    AddVoter,
    Answer,
    ChangeReply,
    Fetch,
    FetchReply,
    FetchSnapshot,
    RemoveVoter,
    ReplicaKey,
    Request,
    Served,
    SnapshotId,
    SnapshotReply,
    Vote,
)
from everlog.raft.replica import LeaderChange, Timing
from everlog.raft.roles import Leader
from everlog.raft.store import QuorumState
from everlog.raft.voters import VoterSet

Entry = tuple[int, bytes]
"""Its epoch, and what it says."""

HASTY = Timing(election_ms=40, backoff_ms=20, fetch_ms=150, retry_ms=5, long_poll_ms=50)
"""Replicas that have no patience stand for election at the same time, again and again."""

SNAPSHOT_PART_BYTES = 200

_MOMENTS = (events.StoreState, events.Lead, events.Commit, events.InstallSnapshot)


class Chance:
    """`ports.Random` from a seed."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def uuid(self) -> Uuid:
        return Uuid(self._source.randbytes(16))

    def below(self, bound: int) -> int:
        return self._source.randrange(bound)


class ListLog:
    """A log in memory: a list, of which a crash keeps what was synced."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """From `start_offset` on."""
        self.start_offset = Offset(0)
        self.kept = 0
        """All below is on disk, at least."""
        self.snapshots: dict[SnapshotId, bytes] = {}
        """On disk, whole."""
        self.part = b""
        """What was fetched of one."""
        self.keys: dict[int, ReplicaKey] = {}
        """All replicas there are, by node."""
        self.changes: list[tuple[Offset, VoterSet]] = []
        """The sets of voters in the log and in the snapshot before it, and behind which entry each is."""

    @property
    def end_offset(self) -> Offset:
        return Offset(self.start_offset + len(self.entries))

    @property
    def last_epoch(self) -> int:
        return self.entries[-1][0] if self.entries else self.start_epoch

    @property
    def start_epoch(self) -> int:
        return next((one.epoch for one in self.snapshots if one.end == self.start_offset), -1)

    @property
    def snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    @property
    def voters(self) -> VoterSet | None:
        return self.changes[-1][1] if self.changes else None

    @property
    def voters_end(self) -> Offset:
        return self.changes[-1][0] if self.changes else Offset(0)

    @property
    def previous_voters(self) -> VoterSet | None:
        return self.changes[-2][1] if len(self.changes) > 1 else None

    def append_voters(self, epoch: int, voters: VoterSet) -> None:
        self._add((epoch, b"voters " + b" ".join(b"%d" % node for node in voters.ids)))

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._note(entry, self.end_offset)

    def _note(self, entry: Entry, end: Offset) -> None:
        word, *ids = entry[1].split(b" ")
        if word == b"voters":
            self.changes.append((end, VoterSet([self.keys[int(node)] for node in ids])))

    def at(self, offset: int) -> Entry:
        return self.entries[offset - self.start_offset]

    def has(self, offset: int) -> bool:
        return self.start_offset <= offset < self.end_offset

    def epoch_end(self, epoch: int) -> tuple[int, Offset]:
        below = [index for index, entry in enumerate(self.entries) if entry[0] <= epoch]
        if below:
            return self.entries[below[-1]][0], Offset(self.start_offset + below[-1] + 1)
        return (self.start_epoch, self.start_offset) if epoch >= self.start_epoch else (-1, Offset(0))

    def append_leader_change(self, epoch: int, change: LeaderChange) -> None:
        self.entries.append((epoch, b"leader"))

    def append_fetched(self, batches: Iterable[bytes]) -> None:
        for batch in batches:
            self._add(_entry(batch))

    def truncate(self, end: Offset) -> None:
        assert end >= self.start_offset, (end, self.start_offset)
        del self.entries[end - self.start_offset :]
        self.kept = min(self.kept, end)
        while self.changes and self.changes[-1][0] > end:
            self.changes.pop()

    def read(self, start: Offset, count: int) -> list[bytes]:
        first = start - self.start_offset
        assert first >= 0, (start, self.start_offset)
        return [b"%d:%s" % entry for entry in self.entries[first : first + count]]

    def has_snapshot(self, snapshot: SnapshotId) -> bool:
        return snapshot in self.snapshots

    def append_snapshot(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        assert position <= len(self.part), (position, len(self.part))
        self.part = self.part[:position] + data

    def begin_at(self, snapshot: SnapshotId) -> None:
        assert snapshot in self.snapshots, snapshot
        self.entries.clear()
        self.start_offset = snapshot.end
        self.kept = snapshot.end
        self.changes.clear()
        for index, line in enumerate(self.snapshots[snapshot].split(b"\n")):
            self._note(_entry(line), Offset(index + 1))

    def take_snapshot(self, end: Offset, before: list[Entry]) -> None:
        """Write one of all below `end`, and drop what only the one before the last has."""
        self.snapshots[SnapshotId(end, before[-1][0])] = b"\n".join(b"%d:%s" % entry for entry in before)
        for old in sorted(self.snapshots)[:-2]:
            del self.snapshots[old]
        start = min(self.snapshots).end
        if start > self.start_offset:
            del self.entries[: start - self.start_offset]
            self.start_offset = start

    def open(self) -> None:
        """As after a restart: a snapshot that reaches further than the log takes its place."""
        newest = self.snapshot
        if newest is not None and newest.end > self.end_offset:
            self.begin_at(newest)


def _entry(batch: bytes) -> Entry:
    epoch, _, value = batch.partition(b":")
    return int(epoch), value


@dataclass(slots=True)
class Node:
    """One replica: its disk, and its core while it runs."""

    key: ReplicaKey
    log: ListLog = field(default_factory=ListLog)
    state: QuorumState | None = None
    core: RaftCore | None = None
    life: int = 0
    """Counts starts: what was meant for an earlier life is lost."""
    proposed: int = 0
    began_at: int = 0
    """Where its log began when that was last looked at."""


@dataclass(frozen=True, slots=True)
class Token:
    """Where the answer to a request goes."""

    answer: Callable[[Answer], None]
    request: Served


@dataclass(frozen=True, slots=True)
class Faults:
    """How bad the world is, drawn for each seed."""

    loss: float
    repeat: float
    delay_ms: int
    crash: float
    """Chance of a crash at each step of the nemesis."""
    cut: float
    """Chance of a link being cut at each step of the nemesis."""
    pause_ms: int
    """At most so long between steps of the nemesis."""
    disk_ms: int
    """At most so long takes a sync."""
    moment: float
    """Chance of a crash at a moment that matters: right after a vote, an election, a commit."""
    snapshot: float
    """Chance of a snapshot each time that something is proposed."""
    change: float
    """Chance of a voter to be added or removed each time that something is proposed."""


class Violation(AssertionError):
    """A promise of the quorum was broken."""


class RaftWorld:
    """Runs from a seed; `run` raises Violation, or returns how much was committed."""

    def __init__(
        self, seed: int, size: int, core_type: type[RaftCore] = RaftCore, timing: Timing | None = None
    ) -> None:
        self._random = random.Random(seed)
        self._core_type = core_type
        self.now = 0
        self._queue: list[tuple[int, int, Any]] = []
        self._serial = 0
        pick = self._random.choice
        spares = pick([0, 0, 1, 2])
        keys = [
            ReplicaKey(number, Uuid(self._random.randbytes(16))) for number in range(1, size + spares + 1)
        ]
        self.voters = VoterSet(keys[:size])
        """Those to begin with; the others follow until they are added."""
        self.nodes = {key.id: Node(key) for key in keys}
        for node in self.nodes.values():
            node.log.keys = {key.id: key for key in keys}
        self.faults = Faults(
            loss=pick([0, 0.02, 0.2]),
            repeat=pick([0, 0.05]),
            delay_ms=pick([2, 20, 300]),
            crash=pick([0, 0.2, 0.5]),
            cut=pick([0, 0.3]),
            pause_ms=pick([150, 1500]),
            disk_ms=pick([5, 20, 400]),
            moment=pick([0, 0, 0.01, 0.1]),
            snapshot=pick([0, 0.02, 0.2]),
            change=pick([0, 0.02, 0.2]) if spares or size > 3 else 0,
        )
        drawn = pick([Timing(), HASTY, HASTY])
        self.timing = timing or drawn
        self.cuts: set[tuple[int, int]] = set()
        self.committed: list[Entry] = []
        """What any node has called committed."""
        self.leaders: dict[int, int] = {}
        self.elections = 0
        self.voter_changes = 0
        self.snapshots = 0
        self.installs = 0
        for node in self.nodes.values():
            self._start(node)

    def run(self, until_ms: int = 60_000) -> int:
        """Faults for two thirds of the time, then none: in the end all agree and something was committed."""
        self._at(500, self._nemesis)
        self._at(50, self._propose)
        healed = False
        while self._queue and self.now < until_ms:
            at, _, act = heapq.heappop(self._queue)
            self.now = at
            if not healed and self.now > until_ms * 2 // 3:
                healed = True
                self._heal()
            act()
        cores = [node.core for node in self.nodes.values()]
        assert all(core is not None for core in cores)
        leaders = {core.leader for core in cores if core is not None}
        if len(leaders) != 1 or None in leaders:
            raise Violation(f"nobody leads in the end: {leaders}")
        ends = {core.high_watermark for core in cores if core is not None}
        if max(ends) - min(ends) > 5:
            raise Violation(f"some are behind in the end: {ends}")
        return len(self.committed)

    def freeze_leader(self, patience_ms: int) -> int:
        """In a world without faults, let the leader hear and say nothing; how long until another leads."""
        self._heal()
        self._at(50, self._propose)
        self._advance(patience_ms, lambda: bool(self.committed))
        self._advance(2_000 + self._random.randrange(1_000), lambda: False)  # Somewhere amid their polls.
        frozen = self._only_leader()
        for other in self.nodes:
            self.cuts |= {(frozen, other), (other, frozen)}
        began, elections = self.now, self.elections
        self._advance(patience_ms, lambda: self.elections > elections)
        return self.now - began

    def _advance(self, for_ms: int, done: Callable[[], bool]) -> None:
        end = self.now + for_ms
        while self._queue and self._queue[0][0] <= end and not done():
            self.now, _, act = heapq.heappop(self._queue)
            act()

    def _only_leader(self) -> int:
        (leader,) = {node.core.leader for node in self.nodes.values() if node.core is not None}
        assert leader is not None
        return leader

    # --- time and the network

    def _at(self, delay_ms: int, act: Any) -> None:
        self._serial += 1
        heapq.heappush(self._queue, (self.now + delay_ms, self._serial, act))

    def _delay(self) -> int:
        return 1 + self._random.randrange(self.faults.delay_ms)

    def _start(self, node: Node) -> None:
        node.life += 1
        node.log.open()
        node.began_at = node.log.start_offset
        node.core = self._core_type(
            node.key, self.voters, node.log, Chance(self._random), node.state, Instant(self.now), self.timing
        )
        self._arm(node, node.life)

    def _arm(self, node: Node, life: int) -> None:
        assert node.core is not None
        due = max(self.now + 1, node.core.deadline())

        def tick() -> None:
            if node.life == life and node.core is not None:
                self._hand(node, Ticked())
                if node.life == life:
                    self._arm(node, life)

        self._at(min(due - self.now, 50), tick)

    def _hand(self, node: Node, event: Event) -> None:
        assert node.core is not None
        leads = isinstance(node.core.role, Leader)
        effects = node.core.step(event, Instant(self.now))
        if node.log.start_offset != node.began_at:
            self.installs += 1
            if leads or isinstance(node.core.role, Leader):
                raise Violation(f"{node.key.id} leads, and gave its log up for a snapshot")
        self._do(node, effects)
        self._check(node)
        if (
            any(isinstance(effect, _MOMENTS) for effect in effects)
            and self._random.random() < self.faults.moment
        ):
            self._crash(node)
            self._at(1 + self._random.randrange(30), lambda: self._start_again(node))

    def _do(self, node: Node, effects: Sequence[Effect]) -> None:
        life = node.life
        for effect in effects:
            match effect:
                case events.StoreState(state):
                    node.state = state
                case events.Sync(cuts):
                    end = node.log.end_offset

                    def synced(end: Offset = end, cuts: int = cuts) -> None:
                        if node.life == life and node.core is not None:
                            node.log.kept = max(node.log.kept, min(end, node.log.end_offset))
                            self._hand(node, Synced(end, cuts))

                    self._at(1 + self._random.randrange(self.faults.disk_ms), synced)
                case events.Ask(to, request):
                    self._send(node, to, request)
                case events.Reply(token, answer):
                    assert isinstance(token, Token)
                    token.answer(_filled(node.log, token.request, answer))
                case events.Lead(epoch):
                    if self.leaders.setdefault(epoch, node.key.id) != node.key.id:
                        raise Violation(f"two lead epoch {epoch}: {self.leaders[epoch]} and {node.key.id}")
                    self.elections += 1
                case events.Commit(end):
                    self._commit(node, end)
                case events.InstallSnapshot(snapshot):
                    part = node.log.part

                    def installed(snapshot: SnapshotId = snapshot, part: bytes = part) -> None:
                        if node.life == life and node.core is not None:
                            node.log.snapshots.setdefault(snapshot, part)
                            self._hand(node, Installed(snapshot, is_whole=True))

                    self._at(1 + self._random.randrange(self.faults.disk_ms), installed)
                case events.StandDown():
                    pass

    def _send(self, node: Node, to: int, request: Request) -> None:
        life = node.life
        settled = False

        def settle(event: Event) -> None:
            nonlocal settled
            if not settled and node.life == life and node.core is not None:
                settled = True
                self._hand(node, event)

        def answer(reply: Any) -> None:
            if not self._is_lost(to, node.key.id):
                self._at(self._delay(), lambda: settle(Answered(to, request, reply)))

        def arrive() -> None:
            other = self.nodes[to]
            if other.core is not None:
                self._hand(other, Asked(Token(answer, request), request))

        for _ in range(2 if self._random.random() < self.faults.repeat else 1):
            if not self._is_lost(node.key.id, to):
                self._at(self._delay(), arrive)
        patience_ms = self.timing.vote_ms if isinstance(request, Vote) else self.timing.fetch_ms
        self._at(patience_ms, lambda: settle(Unanswered(to, request)))

    def _is_lost(self, start: int, end: int) -> bool:
        return (start, end) in self.cuts or self._random.random() < self.faults.loss

    # --- what goes wrong

    def _nemesis(self) -> None:
        chosen = self._random.choice(list(self.nodes.values()))
        if chosen.core is None:
            self._start(chosen)
        elif self._random.random() < self.faults.crash:
            self._crash(chosen)
        if self._random.random() < self.faults.cut:
            if self.cuts:
                self.cuts.clear()
            else:
                for other in self.nodes:
                    if other != chosen.key.id:
                        self.cuts |= {(chosen.key.id, other)} if self._random.random() < 0.8 else set()
                        self.cuts |= {(other, chosen.key.id)} if self._random.random() < 0.8 else set()
        self._at(50 + self._random.randrange(self.faults.pause_ms), self._nemesis)

    def _crash(self, node: Node) -> None:
        node.core = None
        node.life += 1
        kept = node.log.kept + self._random.randrange(node.log.end_offset - node.log.kept + 1)
        node.log.truncate(Offset(max(kept, node.log.start_offset)))
        node.log.kept = kept
        for other in self.nodes.values():
            if other.core is not None and (node.key.id, other.key.id) not in self.cuts:
                self._at(
                    self._delay(), lambda other=other, life=other.life: self._tell_gone(other, life, node)
                )

    def _tell_gone(self, other: Node, life: int, node: Node) -> None:
        if other.life == life and other.core is not None:
            self._hand(other, Gone(node.key.id))

    def _start_again(self, node: Node) -> None:
        if node.core is None:
            self._start(node)

    def _heal(self) -> None:
        self.faults = Faults(
            0, 0, delay_ms=4, crash=0, cut=0, pause_ms=1500, disk_ms=4, moment=0, snapshot=0, change=0
        )
        self.cuts.clear()
        for node in self.nodes.values():
            if node.core is None:
                self._start(node)

    def _propose(self) -> None:
        for node in self.nodes.values():
            if node.core is not None and isinstance(node.core.role, Leader):
                node.proposed += 1
                node.log.entries.append((node.core.epoch, b"%d-%d" % (node.key.id, node.proposed)))
                self._do(node, node.core.appended(Instant(self.now)))
                if self._random.random() < self.faults.change:
                    self._change_voters(node, node.core)
            if node.core is not None and self._random.random() < self.faults.snapshot:
                self._take_snapshot(node, node.core)
        self._at(20 + self._random.randrange(100), self._propose)

    def _change_voters(self, node: Node, core: RaftCore) -> None:
        chosen = self._random.choice(list(self.nodes.values())).key
        voters = node.log.voters or self.voters
        change = RemoveVoter(chosen) if chosen.id in voters.ids else AddVoter(chosen, (), timeout_ms=2_000)

        def told(answer: Answer) -> None:
            assert isinstance(answer, ChangeReply)
            self.voter_changes += answer.error is ErrorCode.NONE

        self._hand(node, Asked(Token(told, change), change))

    def _take_snapshot(self, node: Node, core: RaftCore) -> None:
        end = core.high_watermark
        newest = node.log.snapshot
        if end > (0 if newest is None else newest.end):
            node.log.take_snapshot(end, self.committed[:end])
            self.snapshots += 1
            self._check(node)
            assert node.began_at == node.log.start_offset

    # --- what must hold

    def _commit(self, node: Node, end: Offset) -> None:
        log = node.log
        if end > log.end_offset:
            raise Violation(f"{node.key.id} calls {end} committed and has {log.end_offset}")
        if log.start_offset > len(self.committed):
            raise Violation(
                f"{node.key.id} begins at {log.start_offset}, and {len(self.committed)} is committed"
            )
        for offset in range(log.start_offset, end):
            entry = log.at(offset)
            if offset < len(self.committed):
                if self.committed[offset] != entry:
                    raise Violation(
                        f"offset {offset} was {self.committed[offset]}, on {node.key.id} it is {entry}"
                    )
            else:
                self.committed.append(entry)
                holders = [
                    one
                    for one in self.nodes.values()
                    if one.log.has(offset) and one.log.kept > offset and one.log.at(offset) == entry
                ]
                voters = log.voters or self.voters
                if not voters.is_majority([one.key.id for one in holders]):
                    raise Violation(f"offset {offset} is committed and durable on {len(holders)} nodes only")

    def _check(self, node: Node) -> None:
        assert node.core is not None
        if isinstance(node.core.role, Leader) and self.leaders.get(node.core.epoch) != node.key.id:
            raise Violation(
                f"{node.key.id} leads epoch {node.core.epoch}, which {self.leaders} does not know"
            )
        log = node.log
        if log.start_offset and not any(one.end == log.start_offset for one in log.snapshots):
            raise Violation(f"{node.key.id} begins at {log.start_offset} and has {list(log.snapshots)}")
        if log.start_offset != node.began_at:
            node.began_at = log.start_offset
            self._check_snapshots(node)

    def _check_snapshots(self, node: Node) -> None:
        """What a log begins behind is what was committed."""
        for snapshot, content in node.log.snapshots.items():
            found = [_entry(line) for line in content.split(b"\n")]
            if found != self.committed[: snapshot.end] or found[-1][0] != snapshot.epoch:
                raise Violation(f"{node.key.id} has {snapshot}, which is not what was committed")


def _filled(log: ListLog, request: Served, answer: Answer) -> Answer:
    """An answer, with what is read from the log for it."""
    if isinstance(answer, FetchReply):
        assert isinstance(request, Fetch)
        if answer.error or answer.diverging or answer.snapshot:
            return answer
        return replace(answer, batches=tuple(log.read(request.offset, 3)))
    if isinstance(answer, SnapshotReply) and not answer.error:
        assert isinstance(request, FetchSnapshot)
        content = log.snapshots.get(request.snapshot)
        if content is None:
            return replace(answer, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        part = content[request.position : request.position + SNAPSHOT_PART_BYTES]
        return replace(answer, size=len(content), data=part)
    return answer
