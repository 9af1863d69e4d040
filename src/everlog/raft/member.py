"""QuorumMember: this node in the quorum; it carries out what `RaftCore` wants done.

Effects are carried out in order. A vote is on disk before anything behind it goes out, and events that come
meanwhile wait. Where the disk fails a sync or a vote, nobody knows what it holds: the lead is given up, the
log is opened anew up to what is known to be durable, and a new core begins as after a restart.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from everlog.model.errors import CorruptDataError, ErrorCode, StorageError
from everlog.model.ids import Instant, Offset
from everlog.peers.address import Address
from everlog.raft import events
from everlog.raft.core import KAFKAS_TIMING, RaftCore
from everlog.raft.description import QuorumDescription, describe
from everlog.raft.events import Effect, Event
from everlog.raft.leading import NEVER
from everlog.raft.member_ports import MemberLog, MemberWorld, NoTransport, QuorumListener, Transport
from everlog.raft.messages import (
    AddVoter,
    Answer,
    BeginEpoch,
    ChangeReply,
    EndEpoch,
    Fetch,
    FetchReply,
    FetchSnapshot,
    Noted,
    RemoveVoter,
    ReplicaKey,
    Request,
    Served,
    SnapshotId,
    SnapshotReply,
    UpdateVoter,
    Vote,
    VoteReply,
)
from everlog.raft.replica import Timing
from everlog.raft.roles import Leader
from everlog.raft.store import FILE_NAME, QuorumState, QuorumStore
from everlog.raft.voters import VoterSet
from everlog.records.batch import BatchView

__all__ = ["MemberLog", "MemberWorld", "NoTransport", "QuorumListener", "QuorumMember", "Transport"]

_log = logging.getLogger(__name__)

RETRY_MS = 1_000
"""How long a member waits whose disk has failed it again since it began anew."""

_BROKEN = StorageError("the metadata log takes no more appends")


@dataclass(frozen=True, slots=True, eq=False)
class _Asking:
    """A request of another member, and who waits for the answer."""

    request: Served
    done: Callable[[Answer], None]


class QuorumMember:
    """See the module. Its owner calls `tick` when the alarm rings, and `gone` for a node that went away."""

    def __init__(
        self,
        me: ReplicaKey,
        voters: VoterSet,
        log: MemberLog,
        store: QuorumStore,
        world: MemberWorld,
        transport: Transport | None = None,
        timing: Timing = KAFKAS_TIMING,
        bootstrap: tuple[int, ...] = (),
    ) -> None:
        """`voters` are in force where the log has none.

        `bootstrap` are numbers below 0 under which the transport knows nodes to ask for the leader.
        """
        self.me = me
        self._static_voters = voters
        self._bootstrap = bootstrap
        self._known_voters: VoterSet | None = None
        """Those whose addresses the transport has."""
        self._log = log
        self._store = store
        self._world = world
        self._transport: Transport = transport or NoTransport()
        self._timing = timing
        self._core: RaftCore | None = None
        """None before `start`, and after a failure until it begins anew."""
        self.on_leader_gone: Callable[[int], None] = lambda _: None
        """Told of the leader that this member followed when its process has ended, before it acts on it."""
        self._life = 0
        """Counts cores: what was begun for an earlier one says nothing to the present one."""
        self._events: deque[Event] = deque()
        self._effects: deque[Effect] = deque()
        """What the last event has led to and is not done yet; done before the next event is taken in."""
        self._running = False
        self._storing = False
        self._syncing = False
        self._sync_wanted: int | None = None
        """The newest `Sync.cuts` that no sync has been begun for."""
        self._asked: dict[_Asking, None] = {}
        self._lead_epoch: int | None = None
        """Set from `Lead` to `StandDown`."""
        self._active_epoch: int | None = None
        """The same, from the first commit on: it is that of the leader's own announcement."""
        self._high_watermark = Offset(0)
        self._failures = 0
        """How often the disk has failed us since the last sync that it did not."""
        self._restart_at: Instant | None = None
        self._listeners: list[QuorumListener] = []

    # What it is

    @property
    def voters(self) -> VoterSet:
        """Who votes: by the log, and by the settings where that does not say."""
        return self._log.voters or self._static_voters

    @property
    def node_id(self) -> int:
        """This node."""
        return self.me.id

    @property
    def epoch(self) -> int:
        """The newest epoch that this node knows of; -1 while it has not begun."""
        return -1 if self._core is None else self._core.epoch

    @property
    def leader(self) -> int | None:
        """Who leads the epoch, as far as this node knows."""
        return None if self._core is None else self._core.leader

    @property
    def leader_address(self) -> Address | None:
        """Where the leader listens, if that is known."""
        leader = self.leader
        if leader is None:
            return None
        return self.voters.address(leader) or self._transport.address(leader)

    @property
    def is_active(self) -> bool:
        """Whether it leads, and the entry that says so is committed: proposals can be made."""
        core = self._core
        return (
            self._active_epoch is not None
            and core is not None
            and core.epoch == self._active_epoch
            and isinstance(core.role, Leader)
            and not self._log.failed
        )

    @property
    def high_watermark(self) -> Offset:
        """Up to where the log is committed, as far as this node knows; it never goes back."""
        return self._high_watermark

    @property
    def end_offset(self) -> Offset:
        """Where the next entry will lie."""
        return self._log.end_offset

    @property
    def start_offset(self) -> Offset:
        """Where the log begins; what came before is in `snapshot`."""
        return self._log.start_offset

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot of the log, at the end of which or before it the log begins."""
        return self._log.snapshot

    @property
    def unsaved_bytes(self) -> int:
        """About how much was appended since the newest snapshot."""
        return self._log.unsaved_bytes

    # What it does

    def follow(self, listener: QuorumListener) -> None:
        """Tell a listener of all that happens from now on, in the order of `follow`."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Take up where the disk left off; StorageError if it cannot be read."""
        assert self._core is None, self._core
        self._begin()
        self._run()

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        if self._log.failed and self._core is not None and not self._syncing:
            self._fail(_BROKEN)
        if self._restart_at is not None and self._restart_at <= now:
            self._restart()
        if self._core is None:
            self._arm()  # The alarm has rung for somebody else and knows no other time any more.
        self._hand(events.Ticked())

    def resign(self) -> None:
        """Give up the lead, as before a shutdown, in favour of who has most of the log."""
        if self._core is not None:
            self._effects.extend(self._core.resign(self._world.clock.now()))
            self._run()

    def gone(self, node: int) -> None:
        """Take in that a node has closed its connections, as one does whose process has ended."""
        if node == self.leader:
            self.on_leader_gone(node)
        self._hand(events.Gone(node))

    def learn(self, addresses: Mapping[int, Address]) -> None:
        """Take in where nodes listen for the quorum, as they say themselves."""
        self._transport.learn(addresses)

    def asked(self, request: Served, done: Callable[[Answer], None]) -> None:
        """Take in what somebody asks of this member; `done` gets the answer, now or later, once."""
        asking = _Asking(request, done)
        if self._core is None:
            done(self._refusal(request))
            return
        self._asked[asking] = None
        self._hand(events.Asked(asking, request))

    def propose(self, records: Sequence[bytes]) -> Offset:
        """Append records as one batch, all or nothing, and return the offset behind them.

        Only while `is_active`. They are in effect once the high watermark has come that far. StorageError,
        and nothing done, if the disk refuses.
        """
        core = self._core
        assert core is not None, "only a leader proposes"
        assert self.is_active, "only a leader proposes"
        now = self._world.clock.now()
        try:
            self._log.append_records(records, core.epoch)
        except StorageError:
            if self._log.failed:
                self._world.alarm.ring_by(now)
            raise
        end = self._log.end_offset
        self._effects.extend(core.appended(now))
        self._run()
        return end

    def batches(self, start: Offset, end: Offset) -> Iterator[BatchView]:
        """The batches of the log from `start` to `end`, where batches begin and end."""
        return self._log.batches(start, end)

    def snapshot_batches(self) -> Iterator[BatchView]:
        """The batches of the newest snapshot, for who has read less than `start_offset`.

        Its header and footer are among them, as control batches. CorruptDataError where one is damaged.
        """
        snapshot = self._log.snapshot
        assert snapshot is not None, "there is no snapshot"
        return self._log.snapshot_batches(snapshot)

    def take_snapshot(
        self,
        end: Offset,
        epoch: int,
        records: Iterable[bytes],
        done: Callable[[StorageError | None], None],
    ) -> None:
        """Keep records that lead to the same state as all entries below `end`, the last of them of `epoch`.

        They are gone through beside the loop and must not change meanwhile. `done` is told when they are on
        disk, and the log has let go of what nobody needs any more.
        """
        assert end <= self._high_watermark, (end, self._high_watermark)
        self._log.take_snapshot(SnapshotId(end, epoch), records, done)

    # Events and effects, in order

    def _hand(self, event: Event) -> None:
        if self._core is not None:
            self._events.append(event)
            self._run()

    def _run(self) -> None:
        """Carry out effects and take in events until there are none, or the vote has to reach the disk."""
        if self._running:
            return
        self._running = True
        try:
            while not self._storing and self._core is not None:
                if self._effects:
                    self._carry_out(self._effects.popleft())
                elif self._events:
                    self._step(self._core, self._events.popleft())
                else:
                    break
        finally:
            self._running = False
        self._arm()

    def _step(self, core: RaftCore, event: Event) -> None:
        try:
            self._effects.extend(core.step(event, self._world.clock.now()))
        except StorageError as error:
            # What the core wanted to tell anybody about it was not told, so nothing has happened.
            self._fail(error)
        if self._known_voters is not self.voters:
            self._known_voters = self.voters
            self._transport.learn(self._known_voters.addresses)

    def _arm(self) -> None:
        # While a vote is being written no event is taken in. What is due by then would have the alarm ring
        # without a pause; whoever ends the wait arms it.
        if self._core is not None and not self._storing:
            deadline = self._core.deadline()
            if deadline < NEVER:
                self._world.alarm.ring_by(deadline)
        if self._restart_at is not None:
            self._world.alarm.ring_by(self._restart_at)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case events.StoreState(state):
                # Of votes with nothing between them only the last one is of use.
                if not self._effects or not isinstance(self._effects[0], events.StoreState):
                    self._keep(state)
            case events.Sync(cuts):
                self._sync_wanted = cuts
                self._sync()
            case events.Ask(node, request):
                self._ask(node, request)
            case events.Reply(token, answer):
                assert isinstance(token, _Asking), token
                self._reply(token, answer)
            case events.Lead(epoch):
                self._lead_epoch = epoch
                _log.info("node %d leads the quorum in epoch %d", self.me.id, epoch)
            case events.StandDown():
                self._stand_down()
            case events.Commit(high_watermark):
                self._commit(high_watermark)
            case events.InstallSnapshot(snapshot):
                self._install(snapshot)
            case _:
                assert_never(effect)

    def _keep(self, state: QuorumState) -> None:
        self._storing = True
        life = self._life
        began = self._world.clock.now()

        def kept(result: OSError | None) -> None:
            self._storing = False
            took_ms = self._world.clock.now() - began
            if life == self._life and took_ms > self._timing.retry_ms:
                self._events.appendleft(events.Stored(took_ms))
            if life == self._life and isinstance(result, OSError):
                self._fail(StorageError(f"the vote of epoch {state.epoch} cannot be written: {result}"))
            if self._restart_at is not None and self._restart_at <= self._world.clock.now():
                self._restart()
            self._run()

        self._world.aside.run(lambda: self._store.write(state), kept)

    def _sync(self) -> None:
        """Begin a sync if one is wanted and none runs: entries gather meanwhile and share the next."""
        if self._sync_wanted is None or self._syncing or self._core is None:
            return
        cuts, self._sync_wanted = self._sync_wanted, None
        self._syncing = True
        life = self._life

        def synced(result: Offset | StorageError) -> None:
            self._syncing = False
            if life != self._life:
                if self._restart_at is not None and self._restart_at <= self._world.clock.now():
                    self._restart()
                self._sync()
                self._run()
            elif isinstance(result, StorageError):
                self._fail(result)
                self._run()
            elif self._log.failed:
                self._fail(_BROKEN)
                self._run()
            else:
                self._failures = 0
                # What was appended meanwhile gets the next one before anybody is told, who may append more.
                self._sync()
                self._hand(events.Synced(result, cuts))

        self._log.sync(synced)

    def _install(self, snapshot: SnapshotId) -> None:
        life = self._life

        def installed(result: bool | StorageError) -> None:
            if life != self._life:
                return
            if isinstance(result, StorageError):
                self._fail(result)
                self._run()
            else:
                self._hand(events.Installed(snapshot, is_whole=result))

        self._log.install(snapshot, installed)

    def _ask(self, node: int, request: Request) -> None:
        life = self._life

        def answered(answer: Answer | None) -> None:
            if life == self._life:
                if answer is None:
                    self._hand(events.Unanswered(node, request))
                else:
                    self._hand(events.Answered(node, request, answer))

        self._transport.ask(node, request, answered)

    def _reply(self, asking: _Asking, answer: Answer) -> None:
        del self._asked[asking]
        request = asking.request
        try:
            asking.done(self._filled(request, answer))
        except (StorageError, CorruptDataError) as error:
            _log.error("what node %d is asked for cannot be read, %s: %s", self.me.id, request, error)
            asking.done(self._refusal(request))

    def _filled(self, request: Served, answer: Answer) -> Answer:
        """An answer with what is read from the disk for it."""
        if not isinstance(answer, FetchReply | SnapshotReply) or answer.error is not ErrorCode.NONE:
            return answer
        if isinstance(answer, FetchReply):
            assert isinstance(request, Fetch), request
            if answer.diverging is not None or answer.snapshot is not None:
                return answer
            return replace(answer, batches=self._log.read(request.offset, request.max_bytes))
        assert isinstance(request, FetchSnapshot), request
        found = self._log.read_snapshot(request.snapshot, request.position, request.max_bytes)
        if found is None:
            return replace(answer, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        size, data = found
        if not 0 <= request.position < size:
            return replace(answer, error=ErrorCode.POSITION_OUT_OF_RANGE)
        return replace(answer, size=size, data=data)

    def _commit(self, high_watermark: Offset) -> None:
        if high_watermark > self._high_watermark:
            self._high_watermark = high_watermark
            for listener in self._listeners:
                listener.committed(high_watermark)
        if self._lead_epoch is not None and self._active_epoch is None:
            self._active_epoch = self._lead_epoch
            for listener in self._listeners:
                listener.activated(self._active_epoch)

    def _stand_down(self) -> None:
        self._lead_epoch = None
        if self._active_epoch is not None:
            self._active_epoch = None
            for listener in self._listeners:
                listener.stood_down()

    # When the disk fails

    def _fail(self, error: StorageError) -> None:
        """Give everything up and begin anew: at once the first time, later if the disk goes on failing."""
        _log.error("node %d leaves the quorum for now: %s", self.me.id, error)
        self._core = None
        self._life += 1
        self._events.clear()
        self._effects.clear()
        self._sync_wanted = None
        asked, self._asked = self._asked, {}
        self._stand_down()
        for asking in asked:
            asking.done(self._refusal(asking.request))
        wait_ms = RETRY_MS if self._failures else 0
        self._failures += 1
        self._restart_at = Instant(self._world.clock.now() + wait_ms)
        if not wait_ms:
            self._restart()
        self._arm()

    def _restart(self) -> None:
        """Begin anew, as after a restart of the process, once nothing of before is under way."""
        if self._syncing or self._storing:
            return  # Whoever ends last calls again.
        self._restart_at = None
        try:
            self._log.reopen()
            self._begin()
        except StorageError as error:
            self._fail(error)

    def _begin(self) -> None:
        now = self._world.clock.now()
        try:
            state = self._store.read()
        except (OSError, CorruptDataError) as error:
            raise StorageError(f"{FILE_NAME} cannot be read: {error}") from error
        self._core = RaftCore(
            self.me,
            self._static_voters,
            self._log,
            self._world.random,
            state,
            now,
            self._timing,
            self._bootstrap,
        )
        if self._log.snapshot is not None:
            self._commit(self._log.snapshot.end)
        self._events.append(events.Ticked())

    def _refusal(self, request: Served) -> Answer:
        """What to say while there is no core to answer: nothing that anybody could count on."""
        match request:
            case Vote():
                return VoteReply(request.epoch, None, granted=False, error=ErrorCode.KAFKA_STORAGE_ERROR)
            case Fetch():
                return FetchReply(request.epoch, None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            case FetchSnapshot():
                return SnapshotReply(request.epoch, None, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            case BeginEpoch() | EndEpoch():
                return Noted(request.epoch, None)
            case AddVoter() | RemoveVoter() | UpdateVoter():
                return ChangeReply(self.epoch, None, ErrorCode.NOT_LEADER_OR_FOLLOWER, "it is not ready")
            case _:
                assert_never(request)

    # For who wants to know

    def describe(self) -> QuorumDescription | None:
        """The quorum as this node sees it while it leads; None while it does not."""
        core = self._core
        if core is None or not isinstance(core.role, Leader) or not self.is_active:
            return None
        return describe(self.me, self.voters, core.role, self._log.end_offset, self._world.clock)
