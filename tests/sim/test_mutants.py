"""The simulator has teeth: each rule that is broken on purpose makes one of a few dozen seeds fail."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from everlog.broker.group_commit import GroupCommit
from everlog.broker.markers import MarkerWriter
from everlog.coordinator.group.classic_group import ClassicGroup
from everlog.coordinator.group.consumer_group import ConsumerGroup
from everlog.coordinator.group.offsets_store import OffsetStore
from everlog.coordinator.machine import Machine
from everlog.coordinator.txn import ending, joining
from everlog.coordinator.txn.shard import TxnShard
from everlog.log.partition import PartitionLog
from everlog.log.producers import Producers
from everlog.sim.world import run_seed

_SEEDS = 120
"""How many seeds a broken rule may survive."""

Patch = Callable[[pytest.MonkeyPatch], None]


def batches_sent_again_are_appended_again(patch: pytest.MonkeyPatch) -> None:
    """The window of sequence numbers is not looked at."""

    def check(self: Producers, batch: object) -> None:
        return None

    patch.setattr(Producers, "check", check)


def the_window_is_forgotten_over_a_restart(patch: pytest.MonkeyPatch) -> None:
    """A snapshot of producers is written and not read."""

    def put(self: Producers, state: object) -> None:
        return None

    patch.setattr(Producers, "put", put)


def appends_are_acknowledged_before_they_are_synced(patch: pytest.MonkeyPatch) -> None:
    """Whoever waits for the disk is told at once that it is done."""

    def wait(
        self: GroupCommit, log: object, end_offset: int, due_at: object, waiter: Callable[[bool], None]
    ) -> None:
        waiter(True)

    patch.setattr(GroupCommit, "wait", wait)


def undecided_records_are_shown(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset is the high watermark, whatever is open."""

    def last_stable_offset(self: PartitionLog, high_watermark: int) -> int:
        return high_watermark

    patch.setattr(PartitionLog, "last_stable_offset", last_stable_offset)


def aborted_records_are_shown(patch: pytest.MonkeyPatch) -> None:
    """Nobody is told which transactions were aborted."""

    def aborted_between(self: PartitionLog, start: int, end: int) -> list[object]:
        return []

    patch.setattr(PartitionLog, "aborted_between", aborted_between)


def zombies_end_transactions(patch: pytest.MonkeyPatch) -> None:
    """The coordinator asks nobody for the epoch."""

    def check_client(txn: object, producer: object) -> None:
        return None

    patch.setattr(ending, "check_client", check_client)
    patch.setattr(joining, "check_client", check_client)


def pending_offsets_are_forgotten_on_replay(patch: pytest.MonkeyPatch) -> None:
    """A marker that comes after a restart finds no offsets to commit."""
    really_replay = Machine.replay

    def replayed(self: Machine, key: Any, value: Any, offset: Any, producer: Any) -> None:
        if producer is None:
            really_replay(self, key, value, offset, producer)

    patch.setattr(Machine, "replay", replayed)


def offsets_count_before_their_marker(patch: pytest.MonkeyPatch) -> None:
    """Offsets of a transaction are committed as soon as they are written."""
    really_apply = OffsetStore.apply

    def apply(self: OffsetStore, record: Any, at: Any, producer_id: int | None) -> None:
        really_apply(self, record, at, None)

    patch.setattr(OffsetStore, "apply", apply)


def pending_offsets_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A reader of offsets is told the old ones while a transaction is about to change them."""

    def is_unstable(self: OffsetStore, place: object) -> bool:
        return False

    patch.setattr(OffsetStore, "is_unstable", is_unstable)


def old_generations_commit(patch: pytest.MonkeyPatch) -> None:
    """A classic group takes commits from whoever was a member once."""

    def check_commit(self: ClassicGroup, *_given: object, **_options: object) -> None:
        return None

    patch.setattr(ClassicGroup, "check_commit", check_commit)


def generations_begin_anew_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """A classic group is read back with its members, and counts its generations from the start."""
    really_take_in = ClassicGroup.take_in

    def take_in(self: ClassicGroup, value: Any) -> Any:
        is_known = self.generation > 0
        changed = really_take_in(self, value)
        self.generation = value.generation if is_known else 0
        return changed

    patch.setattr(ClassicGroup, "take_in", take_in)


def partitions_are_given_before_they_are_given_up(patch: pytest.MonkeyPatch) -> None:
    """A member of a consumer group gets what another has not let go of."""

    def is_free_for(self: ConsumerGroup, member_id: str) -> Callable[[object], bool]:
        return lambda _one: True

    patch.setattr(ConsumerGroup, "is_free_for", is_free_for)


def decisions_are_not_carried_on_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Who comes after a crash does not write the markers that are owed."""

    def activated(self: TxnShard, now: Any) -> None:
        return None

    patch.setattr(TxnShard, "activated", activated)


def commit_markers_are_written_as_aborts(patch: pytest.MonkeyPatch) -> None:
    """Some partitions of a committed transaction are told that it was aborted."""
    really_append = MarkerWriter._append  # pyright: ignore[reportPrivateUsage]

    def append(self: MarkerWriter, marker: Any, replica: Any, done: Any) -> None:
        torn = replace(marker, commit=False) if replica.name.partition == 1 else marker
        really_append(self, torn, replica, done)

    patch.setattr(MarkerWriter, "_append", append)


def first_writes_are_not_verified(patch: pytest.MonkeyPatch) -> None:
    """A write that comes after its transaction has ended opens another one that nobody ends."""

    def check_verified(self: Producers, batch: object) -> None:
        return None

    patch.setattr(Producers, "check_verified", check_verified)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "mutant",
    [
        batches_sent_again_are_appended_again,
        the_window_is_forgotten_over_a_restart,
        appends_are_acknowledged_before_they_are_synced,
        undecided_records_are_shown,
        aborted_records_are_shown,
        zombies_end_transactions,
        pending_offsets_are_forgotten_on_replay,
        offsets_count_before_their_marker,
        pending_offsets_are_not_waited_for,
        old_generations_commit,
        generations_begin_anew_after_a_restart,
        partitions_are_given_before_they_are_given_up,
        decisions_are_not_carried_on_after_a_restart,
        commit_markers_are_written_as_aborts,
        first_writes_are_not_verified,
    ],
    ids=lambda mutant: mutant.__name__,
)
def test_a_broken_rule_is_found(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)

    for seed in range(1, _SEEDS + 1):
        try:
            result = run_seed(seed)
        except Exception:  # noqa: BLE001  # a step that must not happen is a finding like any other
            return
        if not result.sound:
            return
    pytest.fail(f"{mutant.__doc__} No seed up to {_SEEDS} noticed.")
