"""The metadata log: a partition's log, as the quorum appends to it and as a controller reads it back."""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from everlog.log.partition import Origin, PartitionLog
from everlog.log.settings import LogSettings
from everlog.model.errors import ConfigError, CorruptDataError, Refused, StorageError
from everlog.model.ids import LeaderEpoch, Offset, Uuid
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.model.topics import METADATA_TOPIC, TopicPartition
from everlog.peers.address import Address
from everlog.ports.aside import Aside
from everlog.ports.clock import Clock
from everlog.raft.control import kraft_version_value, leader_change_batch, voters_in, voters_value
from everlog.raft.member import MemberWorld, QuorumMember, Transport
from everlog.raft.messages import LONG_POLL_MS, ReplicaKey, SnapshotId
from everlog.raft.replica import LeaderChange, Timing
from everlog.raft.snapshots import SnapshotFiles, snapshot_batches
from everlog.raft.store import QuorumStore
from everlog.raft.voters import VoterSet
from everlog.records.batch import BatchView, batch_at, whole_batches
from everlog.records.builder import NewRecord, build_batch
from everlog.records.control import ControlType, build_control_batch

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)

METADATA_LOG_SETTINGS = LogSettings(
    retention_ms=-1,
    retention_bytes=-1,
    cleanup_delete=False,
    max_message_bytes=64 << 20,
    refuses_damage=True,
)
"""What `__cluster_metadata-0` obeys: all of it is kept, for a controller is made from all of it.

A voter that has counted an entry as its own must not come back without it: the others may go on as if it had
never been, and one that is alone would serve a cluster without the topics that it once had.
"""

_READ_BYTES = 4 << 20
_KEPT_SNAPSHOTS = 2
_NO_SNAPSHOT = SnapshotId(Offset(0), -1)

_log = logging.getLogger(__name__)


class MetadataLog:
    """A `raft.member.MemberLog` on a partition's log."""

    def __init__(
        self,
        log: PartitionLog,
        reopen: Callable[[], PartitionLog],
        aside: Aside,
        clock: Clock,
        snapshots: SnapshotFiles | None = None,
    ) -> None:
        """Use an open log; `reopen` opens it anew, recovering it, after its disk has failed it.

        Without `snapshots` none are kept or used. StorageError where they and the log do not fit together.
        """
        self._log = log
        self._reopen = reopen
        self._aside = aside
        self._clock = clock
        self._snapshots = snapshots
        self._known: list[SnapshotId] = []
        """The snapshots that are whole and on disk, oldest first."""
        self.unsaved_bytes = log.size
        """About how much was appended since the newest of them."""
        self.on_start_moved: Callable[[], None] = lambda: None
        """Called when segments wait for the log's new start to be durable, see `PartitionLog.removals`."""
        self._durable: Offset | None = None
        """Up to where a sync has made it durable; None before the first. The log's recovery point says less:
        it is that of the last checkpoint, and voters may count on what was synced since."""

        self._voter_sets: list[tuple[Offset, VoterSet]] = []
        """The sets of voters in the log and in the snapshot before it, and behind which entry each is."""
        self._log.forget_empty_epochs()
        self._find_snapshots()
        self._find_voters()

    @property
    def voters(self) -> VoterSet | None:
        """The newest voters in the log or the snapshot before it, committed or not; None without any."""
        return self._voter_sets[-1][1] if self._voter_sets else None

    @property
    def previous_voters(self) -> VoterSet | None:
        """The set of voters before that one; None if the log has none."""
        return self._voter_sets[-2][1] if len(self._voter_sets) > 1 else None

    @property
    def voters_end(self) -> Offset:
        """Behind the entry that has them; 0 where `voters` is None."""
        return self._voter_sets[-1][0] if self._voter_sets else Offset(0)

    def append_voters(self, epoch: int, voters: VoterSet) -> None:
        """Append an entry with a set of voters, which is in force at once."""
        wall = self._clock.wall()
        if not self._voter_sets:
            self.append(
                build_control_batch(ControlType.KRAFT_VERSION, kraft_version_value(), timestamp=wall), epoch
            )
        self.append(
            build_control_batch(ControlType.KRAFT_VOTERS, voters_value(voters), timestamp=wall), epoch
        )
        self._voter_sets.append((self._log.end_offset, voters))

    def _find_voters(self) -> None:
        """Look for sets of voters in the newest snapshot and in the log behind it."""
        self._voter_sets = []
        start = self._log.start_offset
        try:
            if self._known:
                start = max(start, self._known[-1].end)
                for batch in self.snapshot_batches(self._known[-1]):
                    self._note_voters(batch, self._known[-1].end)
            for batch in self.batches(start):
                self._note_voters(batch, Offset(batch.next_offset))
        except CorruptDataError as error:
            raise StorageError(f"the voters in {self._log.partition} cannot be read: {error}") from error

    def _note_voters(self, batch: BatchView, end: Offset) -> None:
        voters = voters_in(batch)
        if voters is not None:
            self._voter_sets.append((end, voters))

    def _forget_voters(self, end: Offset) -> None:
        while self._voter_sets and self._voter_sets[-1][0] > end:
            self._voter_sets.pop()

    @property
    def start_offset(self) -> Offset:
        """The first record that is there; what came before is in a snapshot that ends here."""
        return self._log.start_offset

    @property
    def start_epoch(self) -> int:
        """The epoch of the record before `start_offset`; -1 if there is none."""
        return next((one.epoch for one in self._known if one.end == self._log.start_offset), -1)

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot; all in it is committed."""
        return self._known[-1] if self._known else None

    @property
    def end_offset(self) -> Offset:
        """Behind the last record, durable or not."""
        return self._log.end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, in the log or in the snapshot before it; -1 if there is none."""
        log = self._log
        return log.epochs.latest if log.end_offset > log.start_offset else self.start_epoch

    def append(self, batch: bytearray, epoch: int) -> None:
        """Append one batch at `end_offset`; StorageError, and nothing changed, if the disk refuses."""
        view = BatchView(memoryview(batch))
        try:
            self._log.append(view, LeaderEpoch(epoch), self._clock.wall(), Origin.COORDINATOR)
        except Refused as refused:
            # We made the batch ourselves: whatever is wrong with it is a fault of ours.
            raise AssertionError(f"the metadata log refuses our own batch: {refused}") from refused
        self.unsaved_bytes += len(batch)

    def sync(self, done: Callable[[Offset | StorageError], None]) -> None:
        """Make all that is appended durable, then say up to where. `done` comes after this has returned."""
        log = self._log
        plan = log.sync_plan()
        if plan is None:
            self._durable = log.recovery_point
            self._aside.run(_nothing, lambda _: done(log.recovery_point))
            return

        def ran(result: OSError | None) -> None:
            if isinstance(result, OSError):
                log.sync_failed(result)
                done(StorageError(f"{log.partition} cannot be synced: {result}"))
            else:
                log.synced(plan)
                if plan.generation == log.generation and log.failure is None:
                    self._durable = plan.end_offset
                done(plan.end_offset)

        self._aside.run(plan.run, ran)

    def cut_back(self, end: Offset) -> None:
        """Give up all from `end` on and heal the log after a failed sync; StorageError if it cannot be."""
        if self._log.failure is not None:
            self._log.abandon()
            self._log = self._reopen()
        if self._log.end_offset < end:
            # What was committed is gone, and with it the ground that later decisions stood on.
            raise StorageError(
                f"{self._log.partition} ends at {self._log.end_offset}, expected {end}, which was committed"
            )
        self._log.truncate_to(end)
        # The file of epochs may have one whose entries never reached the disk: it would keep out those of an
        # older epoch, which is what the next leader may have.
        self._log.forget_empty_epochs()
        self._forget_voters(end)

    @property
    def failed(self) -> bool:
        """Whether the disk has failed it, so that it takes nothing more before `reopen`."""
        return self._log.failure is not None

    def epoch_end(self, epoch: int) -> tuple[int, Offset]:
        """The newest epoch up to this one that has entries, and where they end; (-1, 0) if none has."""
        entries = self._log.epochs.entries
        above = bisect_right(entries, epoch, key=lambda entry: entry[0])
        if above == 0:
            before = self.start_epoch
            return (before, self._log.start_offset) if 0 <= before <= epoch else (-1, Offset(0))
        end = entries[above][1] if above < len(entries) else self._log.end_offset
        return entries[above - 1][0], end

    def append_leader_change(self, epoch: int, change: LeaderChange) -> None:
        """Append the entry that announces a leader; StorageError, and nothing changed, if it cannot be."""
        wall = self._clock.wall()
        self.append(leader_change_batch(change.leader, change.voters, change.granting, wall), epoch)

    def append_records(self, records: Sequence[bytes], epoch: int) -> None:
        """Append records as one batch, all or nothing; StorageError, and nothing changed, otherwise."""
        wall = self._clock.wall()
        self.append(build_batch([NewRecord(None, value, (), wall) for value in records]), epoch)

    def append_fetched(self, batches: Iterable[bytes]) -> None:
        """Append what a leader sent, as it is; StorageError where the disk refuses or it does not fit."""
        for batch in batches:
            try:
                view = batch_at(bytearray(batch))
                if view.base_offset != self._log.end_offset:
                    raise StorageError(f"the leader sent {view}, expected offset {self._log.end_offset}")
                epoch = LeaderEpoch(view.leader_epoch)
                self._log.append(view, epoch, self._clock.wall(), Origin.REPLICA)
                self.unsaved_bytes += len(batch)
                self._note_voters(view, self._log.end_offset)
            except (Refused, CorruptDataError) as error:
                raise StorageError(f"the leader sent what cannot follow {self._log}: {error}") from error

    def truncate(self, end: Offset) -> None:
        """Give up all from `end` on; StorageError if the disk refuses."""
        self._log.truncate_to(end)
        assert self._log.end_offset == end, (self._log, end)
        self._forget_voters(end)
        if self._durable is not None:
            self._durable = min(self._durable, end)

    def reopen(self) -> None:
        """Open the log anew if the disk has failed it, with what is known to be durable and nothing else.

        What a failed sync was about may lie in the page cache for now, and the next sync may say that all
        is well and not have written it. StorageError if something durable has gone, or if nobody knows what
        is: where the first sync fails, an earlier run may have promised more than this one can tell.
        """
        failure = self._log.failure
        if failure is None:
            return
        if self._durable is None:
            raise StorageError(f"{self._log.partition} failed its first sync, it cannot be used: {failure}")
        self.cut_back(self._durable)

    # Snapshots

    def _find_snapshots(self) -> None:
        """Take up the snapshots on disk; a log that ends before the newest of them begins there."""
        if self._snapshots is None:
            return
        log = self._log
        try:
            found = self._snapshots.found()
            if found and found[-1].end > log.end_offset:
                # The stop came while one was put in the log's place. What it had is in it.
                log.restart_at(found[-1].end)
            for old in [one for one in found if one.end < log.start_offset]:
                self._snapshots.remove(old)
        except OSError as error:
            raise StorageError(f"the snapshots of {log.partition} cannot be read: {error}") from error
        self._known = [one for one in found if one.end >= log.start_offset]
        if not self._known and log.start_offset:
            raise StorageError(f"{log.partition} begins at {log.start_offset} and no snapshot is there")
        if self._known and log.start_offset and self.start_epoch < 0:
            log.move_start_to(self._known[0].end)
        if self._known:
            self.unsaved_bytes = 0

    def has_snapshot(self, snapshot: SnapshotId) -> bool:
        """Whether a snapshot is here, whole and on disk."""
        return self._snapshots is not None and self._snapshots.exists(snapshot)

    def append_snapshot(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        """Keep a part of a snapshot that is being fetched; from position 0 on it begins anew."""
        try:
            self._snapshot_files().write_part(snapshot, position, data)
        except OSError as error:
            raise StorageError(f"{snapshot} of {self._log.partition} cannot be kept: {error}") from error

    def install(self, snapshot: SnapshotId, done: Callable[[bool | StorageError], None]) -> None:
        """Prove what was fetched, make it durable and give it its name, then say whether it is whole."""
        files = self._snapshot_files()

        def ended(result: bool | OSError) -> None:
            if isinstance(result, OSError):
                done(StorageError(f"{snapshot} of {self._log.partition} cannot be kept: {result}"))
            else:
                done(result)

        self._aside.run(lambda: files.finish(snapshot), ended)

    def begin_at(self, snapshot: SnapshotId) -> None:
        """Throw all entries away and begin behind a snapshot that is here; StorageError if it cannot be."""
        files = self._snapshot_files()
        self._log.restart_at(snapshot.end)
        self._durable = snapshot.end
        self._forget([one for one in self._known if one != snapshot], files)
        self._known = [snapshot]
        self.unsaved_bytes = 0
        self._find_voters()

    def take_snapshot(
        self, snapshot: SnapshotId, records: Iterable[bytes], done: Callable[[StorageError | None], None]
    ) -> None:
        """Write a snapshot of what is committed, and let go of what only an older one is needed for.

        `records` are gone through beside the loop: they must not change meanwhile. The last two snapshots
        are kept, and the log from the end of the older one on, so that who lags a little needs neither.
        """
        files = self._snapshot_files()
        voters = next((one for end, one in reversed(self._voter_sets) if end <= snapshot.end), None)
        batches = snapshot_batches(snapshot, records, self._clock.wall(), voters)

        def written(result: OSError | None) -> None:
            if isinstance(result, OSError):
                done(StorageError(f"{snapshot} of {self._log.partition} cannot be written: {result}"))
                return
            if snapshot > max(self._known, default=_NO_SNAPSHOT):
                self._known.append(snapshot)
                self._let_go(files)
            done(None)

        self.unsaved_bytes = 0
        self._aside.run(lambda: files.write(snapshot, batches), written)

    def _let_go(self, files: SnapshotFiles) -> None:
        log = self._log
        self._forget(self._known[:-_KEPT_SNAPSHOTS], files)
        self._known = self._known[-_KEPT_SNAPSHOTS:]
        try:
            log.roll()
            if len(self._known) == _KEPT_SNAPSHOTS:
                log.move_start_to(self._known[0].end)
            if log.enforce_retention(self._clock.wall(), self._known[-1].end):
                self.on_start_moved()
        except StorageError as error:
            # It goes with the next one.
            _log.error("%s keeps more than it needs: %s", log.partition, error)

    def _forget(self, snapshots: Iterable[SnapshotId], files: SnapshotFiles) -> None:
        for snapshot in snapshots:
            try:
                files.remove(snapshot)
            except OSError as error:
                _log.error("%s of %s cannot be removed: %s", snapshot, self._log.partition, error)

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """The size of a snapshot and bytes of it; None if it is not here."""
        files = self._snapshot_files()
        try:
            return files.size(snapshot), files.read(snapshot, position, max_bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{snapshot} of {self._log.partition} cannot be read: {error}") from error

    def snapshot_batches(self, snapshot: SnapshotId) -> Iterator[BatchView]:
        """The batches of a snapshot that is here; CorruptDataError where one is damaged."""
        return self._snapshot_files().batches(snapshot)

    def _snapshot_files(self) -> SnapshotFiles:
        assert self._snapshots is not None, "this log was opened without its snapshots"
        return self._snapshots

    def read(self, start: Offset, max_bytes: int) -> Sequence[bytes]:
        """The batches from the one that holds `start` on: one at least if there is any."""
        try:
            found = self._log.read(start, max_bytes, self._log.end_offset)
        except Refused as refused:
            raise StorageError(str(refused)) from refused
        return () if found is None else [bytes(batch.raw) for batch in whole_batches(found.read())]

    def batches(self, start: Offset | None = None, end: Offset | None = None) -> Iterator[BatchView]:
        """Every batch from `start` to `end`, where batches begin and end; else from the log's own."""
        log = self._log
        offset = log.start_offset if start is None else start
        end = log.end_offset if end is None else end
        while offset < end:
            found = log.read(offset, _READ_BYTES, end)
            assert found is not None, (offset, end, log)
            for batch in whole_batches(found.read()):
                yield batch
                offset = Offset(batch.next_offset)


def _nothing() -> None:
    """Take a turn beside the loop, for `done` may not come before `sync` has returned."""


def quorum_timing(settings: BrokerSettings) -> Timing:
    """How patient members are, by `controller.quorum.*`."""
    fetch_ms = settings[keys.CONTROLLER_QUORUM_FETCH_TIMEOUT_MS]
    return Timing(
        election_ms=settings[keys.CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS],
        backoff_ms=settings[keys.CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS],
        fetch_ms=fetch_ms,
        retry_ms=settings[keys.CONTROLLER_QUORUM_RETRY_BACKOFF_MS],
        # Who waits for something new must hear that there is nothing well before it takes that for silence.
        long_poll_ms=min(LONG_POLL_MS, fetch_ms // 2),
    )


def static_voters(settings: BrokerSettings, me: ReplicaKey) -> VoterSet:
    """The voters of `controller.quorum.voters`, known by node alone; this replica where none are named."""
    if not settings.voters:
        # One that is given other nodes to ask finds the voters in their log, and may be made one later.
        return VoterSet([]) if settings[keys.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS] else VoterSet([me])
    addresses = {one.id: Address(one.host, one.port) for one in settings.voters}
    return VoterSet([ReplicaKey(node) for node in addresses], addresses)


def bootstrap_addresses(settings: BrokerSettings) -> dict[int, Address]:
    """`controller.quorum.bootstrap.servers`, each under a number that no node has, as Kafka does it."""
    found: dict[int, Address] = {}
    for index, text in enumerate(settings[keys.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]):
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (colon and host and port.isdigit() and 0 < int(port) < 65_536):
            raise ConfigError(f"controller.quorum.bootstrap.servers has {text!r}, expected host:port")
        found[-2 - index] = Address(host, int(port))
    return found


def open_member(
    settings: BrokerSettings,
    directory: Uuid,
    log: MetadataLog,
    store: QuorumStore,
    world: MemberWorld,
    transport: Transport | None = None,
) -> QuorumMember:
    """Return this node as a member of the quorum, not started.

    `directory` is the id of the log directory that holds the metadata log. A node that is no controller
    follows and does not vote.
    """
    me = ReplicaKey(settings.node_id, directory)
    bootstrap = bootstrap_addresses(settings)
    member = QuorumMember(
        me,
        static_voters(settings, me),
        log,
        store,
        world,
        transport,
        quorum_timing(settings),
        tuple(bootstrap),
    )
    member.learn(bootstrap)
    return member
