"""The crash tests have teeth: each rule of durability that is broken on purpose makes one of them fail."""

from collections.abc import Callable, Sequence

import pytest

from everlog.broker.handlers.produce_run import lanes_are_built
from everlog.log.directory import LogDirectory
from everlog.log.partition import PartitionLog
from everlog.log.recovery import Opening
from everlog.log.removal import Removals
from everlog.log.settings import LogSettings
from everlog.log.sync import SyncPlan
from everlog.model.ids import Instant, Offset
from everlog.model.topics import TopicPartition
from everlog.sim.aside import SimAside
from everlog.sim.disk import SimFiles
from everlog.sim.handle import SimFile
from tests.crash.histories import SCRIPTED
from tests.crash.test_crash_points import crash_everywhere

Patch = Callable[[pytest.MonkeyPatch], None]


def logs_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A sync leaves out the segments and claims that they are durable."""
    really_run = SyncPlan.run

    def run(self: SyncPlan) -> None:
        object.__setattr__(self, "logs", ())
        really_run(self)

    patch.setattr(SyncPlan, "run", run)


def names_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    """No directory is ever synced, so a file may be durable and its name not."""

    def sync_dir(self: SimFiles, path: str) -> None:
        pass

    patch.setattr(SimFiles, "sync_dir", sync_dir)


def files_are_replaced_before_they_are_synced(patch: pytest.MonkeyPatch) -> None:
    """The bytes of a checkpoint are not durable when its name is."""
    really_sync = SimFile.sync

    def sync(self: SimFile) -> None:
        if not self.path.endswith(".tmp"):
            really_sync(self)

    patch.setattr(SimFile, "sync", sync)


def the_clean_marker_stays(patch: pytest.MonkeyPatch) -> None:
    """What is written after a start is taken for what a clean stop left."""
    really_unlink = SimFiles.unlink

    def unlink(self: SimFiles, path: str) -> None:
        if not path.endswith(".kafka_cleanshutdown"):
            really_unlink(self, path)

    patch.setattr(SimFiles, "unlink", unlink)


def the_recovery_point_stays_when_a_log_is_cut(patch: pytest.MonkeyPatch) -> None:
    """Bytes that were never synced lie where durable ones once were."""

    def offsets_lowered(self: LogDirectory) -> None:
        pass

    patch.setattr(LogDirectory, "_make_offsets_durable", offsets_lowered)


def segments_go_before_the_start_is_durable(patch: pytest.MonkeyPatch) -> None:
    """A segment that expired while a checkpoint was written goes with those that were waiting for it."""
    really_shelve = Removals.shelve

    def shelve(self: Removals, start_offset: Offset, due: Instant) -> None:
        really_shelve(self, Offset(1 << 60), due)

    patch.setattr(Removals, "shelve", shelve)


def a_deleted_topic_leaves_its_offsets(patch: pytest.MonkeyPatch) -> None:
    """The next topic of the name is taken to begin and to be durable where the deleted one was."""
    really_delete = LogDirectory.delete

    def delete(self: LogDirectory, partition: TopicPartition) -> None:
        really_delete(self, partition)
        self._departed.clear()  # pyright: ignore[reportPrivateUsage]  # what is broken here is private

    patch.setattr(LogDirectory, "delete", delete)


def damage_does_not_end_the_log(patch: pytest.MonkeyPatch) -> None:
    """Segments behind a torn one stay."""

    def drop_from(self: object, at: int, problem: str) -> None:
        pass

    patch.setattr("everlog.log.recovery._Scan._drop_from", drop_from)


def a_stop_does_not_wait_for_its_syncs(patch: pytest.MonkeyPatch) -> None:
    """The mark of a clean stop is written while logs are still to be made durable."""

    def run_together(self: SimAside, jobs: Sequence[Callable[[], None]]) -> list[OSError | None]:
        return [None] * len(jobs)

    patch.setattr(SimAside, "run_together", run_together)


def files_of_a_log_without_records_count_as_durable(patch: pytest.MonkeyPatch) -> None:
    """After a clean stop the first sync covers the records, and neither the file's name nor whose it is."""
    really_open = LogDirectory._open_as  # pyright: ignore[reportPrivateUsage]  # as above

    def open_as(
        self: LogDirectory, partition: TopicPartition, settings: LogSettings, opening: Opening
    ) -> PartitionLog:
        log = really_open(self, partition, settings, opening)
        if log.bare and opening.clean:
            unsynced = log._unsynced  # pyright: ignore[reportPrivateUsage]  # as above
            unsynced.changed = unsynced.names_changed = False
            unsynced.others = []
        return log

    patch.setattr(LogDirectory, "_open_as", open_as)


def a_sync_leaves_out_what_the_lane_has(patch: pytest.MonkeyPatch) -> None:
    """The log does not look at what was appended through its lane when it is asked for a sync."""

    def sync_plan(self: PartitionLog) -> SyncPlan | None:
        unsynced = self._unsynced  # pyright: ignore[reportPrivateUsage]  # as above
        tail = self._tail  # pyright: ignore[reportPrivateUsage]  # as above
        return unsynced.plan(tail.segments.active, tail.end_offset, self.epochs)

    patch.setattr(PartitionLog, "sync_plan", sync_plan)


def a_stop_leaves_out_what_the_lane_has(patch: pytest.MonkeyPatch) -> None:
    """The lane is let go of before the log has taken in what was appended through it."""
    really_close = PartitionLog.closing_plan

    def closing_plan(self: PartitionLog) -> SyncPlan | None:
        self.lane = None
        return really_close(self)

    patch.setattr(PartitionLog, "closing_plan", closing_plan)


MUTANTS: dict[Patch, str] = {
    logs_are_not_synced: "group_commits",
    names_are_not_synced: "group_commits",
    files_are_replaced_before_they_are_synced: "truncations",
    the_clean_marker_stays: "clean_stops",
    the_recovery_point_stays_when_a_log_is_cut: "truncations",
    segments_go_before_the_start_is_durable: "retention_during_a_checkpoint",
    a_deleted_topic_leaves_its_offsets: "deleted_topics",
    damage_does_not_end_the_log: "appends_and_rolls",
    a_stop_does_not_wait_for_its_syncs: "clean_stops",
    files_of_a_log_without_records_count_as_durable: "stops_of_logs_without_records",
    a_sync_leaves_out_what_the_lane_has: "appends_in_lanes",
    a_stop_leaves_out_what_the_lane_has: "cuts_and_stops_with_lanes_ahead",
}
OF_LANES = (a_sync_leaves_out_what_the_lane_has, a_stop_leaves_out_what_the_lane_has)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: getattr(mutant, "__name__", ""))
def test_a_broken_rule_is_found(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    if mutant in OF_LANES and not lanes_are_built():
        pytest.skip("the kernels are not built, or EVERLOG_PURE_PYTHON is set")
    name = MUTANTS[mutant]
    mutant(monkeypatch)

    with pytest.raises(AssertionError, match=f"{name}: crash "):
        crash_everywhere(name, SCRIPTED[name], 3)
