"""Quorum: this node as a member of the quorum, from its start through each lead it takes.

A quorum of one wins every election by itself, so its roles are two: leading, and not leading while it
starts or after the disk has failed it. Votes and fetches of other voters join here; the order of things
stays: the vote is on disk before the lead begins, the lead's first entry is committed before all else.
"""

from collections import deque
from collections.abc import Callable, Sequence

from everlog.model.errors import StorageError
from everlog.model.ids import BrokerId, Offset, Uuid
from everlog.ports.aside import Aside
from everlog.ports.clock import Clock
from everlog.raft.leader import Leader
from everlog.raft.log import QuorumLog
from everlog.raft.store import FILE_NAME, QuorumState, QuorumStore
from everlog.records.builder import NewRecord, build_batch
from everlog.records.control import ControlType, build_control_batch
from everlog.wire.codec import encode_value
from everlog.wire.messages.leader_change_message import LeaderChangeMessage, Voter

Committed = Callable[[StorageError | None], None]
"""Told once: None when the entry is committed, the error when this leader has given it up."""


class Quorum:
    """Appends what is proposed, in order, and says when it is committed.

    Entries gather while a sync runs and share the next one, so a thousand proposals cost a few syncs.
    Where a sync fails, all that is not committed is given up and cut off the log, and the next proposal
    begins a new epoch.
    """

    def __init__(
        self, me: BrokerId, directory: Uuid, log: QuorumLog, store: QuorumStore, aside: Aside, clock: Clock
    ) -> None:
        self.me = me
        self.voters = (me,)
        self._directory = directory
        self._log = log
        self._store = store
        self._aside = aside
        self._clock = clock
        self._leader: Leader | None = None
        self._high_watermark = Offset(0)
        """Never goes back, whatever becomes of a lead; known from the first lead's first commit on."""
        self._waiting: deque[tuple[Offset, Committed]] = deque()
        """Entries on their way: where each ends, and whom to tell; in order of offset."""
        self._syncing = False
        self._damaged = False
        """Whether the log may hold entries that were given up."""

    @property
    def leads(self) -> bool:
        """Whether proposals can be made now."""
        return self._leader is not None

    @property
    def epoch(self) -> int:
        """The epoch of the present lead, -1 without one."""
        return -1 if self._leader is None else self._leader.epoch

    @property
    def high_watermark(self) -> Offset:
        """Up to where the log is committed, as far as this node knows."""
        return self._high_watermark

    @property
    def end_offset(self) -> Offset:
        """Where the next entry will lie."""
        return self._log.end_offset

    def lead(self, done: Committed) -> None:
        """Begin a new epoch as its leader; `done` comes when the entry that says so is committed."""
        assert self._leader is None, self._leader
        try:
            if self._damaged:
                self._log.cut_back(self._high_watermark)
                self._damaged = False
            known = self._store.read()
        except StorageError as error:
            done(error)
            return
        except OSError as error:
            done(StorageError(f"{FILE_NAME} cannot be read: {error}"))
            return
        epoch = max(-1 if known is None else known.epoch, self._log.last_epoch) + 1
        state = QuorumState(epoch, leader=self.me, voted=self.me, voted_directory=self._directory)
        # A vote that a crash can undo could be given twice, to two leaders of one epoch.
        self._aside.run(lambda: self._store.write(state), lambda result: self._voted(state, done, result))

    def propose(self, records: Sequence[bytes], committed: Committed) -> None:
        """Append records as one batch, all or nothing; StorageError, and nothing done, if the disk refuses.

        `committed` comes later, never from within this call.
        """
        assert self._leader is not None, "only a leader proposes"
        now = self._clock.wall()
        batch = build_batch([NewRecord(None, value, (), now) for value in records])
        self._append(batch, self._leader.epoch, committed)

    def _voted(self, state: QuorumState, done: Committed, result: OSError | None) -> None:
        if isinstance(result, OSError):
            done(StorageError(f"the vote of epoch {state.epoch} cannot be written: {result}"))
            return
        self._leader = Leader(state.epoch, self._log.end_offset, self.voters)
        voters = [Voter(voter_id=voter) for voter in self.voters]
        change = LeaderChangeMessage(version=0, leader_id=self.me, voters=voters, granting_voters=voters)
        batch = build_control_batch(
            ControlType.LEADER_CHANGE, encode_value(change, 0), timestamp=self._clock.wall()
        )
        try:
            self._append(batch, state.epoch, done)
        except StorageError as error:
            self._leader = None
            done(error)

    def _append(self, batch: bytearray, epoch: int, committed: Committed) -> None:
        self._log.append(batch, epoch)
        self._waiting.append((self._log.end_offset, committed))
        if not self._syncing:
            self._sync()

    def _sync(self) -> None:
        self._syncing = True
        self._log.sync(self._synced)

    def _synced(self, result: Offset | StorageError) -> None:
        self._syncing = False
        if isinstance(result, StorageError):
            self._give_up(result)
            return
        leader = self._leader
        assert leader is not None, result
        if leader.acknowledged(self.me, result) and leader.high_watermark is not None:
            self._high_watermark = leader.high_watermark
        # Those behind this sync get the next one before anybody is told: who is told may propose more.
        if self._waiting and self._waiting[-1][0] > result:
            self._sync()
        while self._waiting and self._waiting[0][0] <= self._high_watermark:
            _, committed = self._waiting.popleft()
            committed(None)

    def _give_up(self, error: StorageError) -> None:
        self._leader = None
        self._damaged = True
        given_up = list(self._waiting)
        self._waiting.clear()
        for _, committed in given_up:
            committed(error)
