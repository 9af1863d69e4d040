"""The simulated worlds of the public clients have teeth: each rule of a client that is broken is noticed."""

from collections.abc import Callable, Collection
from typing import Any

import pytest

from everlog.client.core.consumer.chunks import Aborted
from everlog.client.core.consumer.positions import Positions
from everlog.client.core.group.membership_classic import ClassicMember
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.pending_batch import NO_SEQUENCE, PendingBatch
from everlog.client.drive.commits import Commits
from everlog.client.drive.reading import Reading
from everlog.client.drive.sender import Sender
from everlog.model.topics import TopicPartition
from everlog.sim.client_world import run_client_seed

_SEEDS = 100
"""How many seeds a broken rule may survive."""
_RARE = {
    "members_that_left_commit_under_no_name": 25,
}
"""Where to begin with what few seeds notice."""

Patch = Callable[[pytest.MonkeyPatch], None]


def batches_sent_again_get_new_numbers(patch: pytest.MonkeyPatch) -> None:
    """A batch whose answer was lost is sent again as if it were another one."""
    really_again = PartitionQueue.again

    def again(self: PartitionQueue, batch: PendingBatch, error: Any, retry_at: float) -> None:
        really_again(self, batch, error, retry_at)
        batch.base_sequence = NO_SEQUENCE
        batch.encoded = None

    patch.setattr(PartitionQueue, "again", again)


def numbers_are_used_twice(patch: pytest.MonkeyPatch) -> None:
    """Each batch is sent with the number of the one before it, now and then."""
    really_number = PartitionQueue.number

    def number(self: PartitionQueue, batch: PendingBatch) -> None:
        before = self.next_sequence
        really_number(self, batch)
        if batch.count == 3:
            self.next_sequence = before

    patch.setattr(PartitionQueue, "number", number)


def holes_do_not_raise_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """After a batch was given up, those behind it are numbered anew under the same epoch."""

    def bump(self: PartitionQueue) -> None:
        self._start_over()  # pyright: ignore[reportPrivateUsage]

    patch.setattr(PartitionQueue, "_bump", bump)


def batches_overtake_those_that_are_sent_again(patch: pytest.MonkeyPatch) -> None:
    """Nothing waits for an older batch to be delivered, and numbers are given at the last moment."""

    def may_send(self: PartitionQueue, node_id: int) -> bool:
        return True

    def put_back(self: PartitionQueue, batch: PendingBatch) -> None:
        self.waiting.append(batch)
        self.waiting_bytes += batch.charged_bytes

    patch.setattr(PartitionQueue, "may_send", may_send)
    patch.setattr(PartitionQueue, "_put_back", put_back)


def what_was_fetched_is_committed(patch: pytest.MonkeyPatch) -> None:
    """Positions are committed before their records are handed out."""

    def consumed(
        self: Commits, places: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            state.place: OffsetAndMetadata(state.fetch_offset)
            for state in self._positions  # pyright: ignore[reportPrivateUsage]
            if state.position >= 0 and (places is None or state.place in places)
        }

    patch.setattr(Commits, "consumed", consumed)


def revoked_partitions_are_still_read(patch: pytest.MonkeyPatch) -> None:
    """A member forgets nothing of what it gives up."""

    def drop(self: Reading, places: Collection[TopicPartition]) -> None:
        return None

    patch.setattr(Reading, "_drop", drop)


def members_that_left_commit_under_no_name(patch: pytest.MonkeyPatch) -> None:
    """Offsets go into a transaction without a generation once the member has none."""

    def standing(self: ClassicMember) -> GroupMetadata:
        return self.metadata

    patch.setattr(ClassicMember, "standing", property(standing))


def members_begin_behind_the_committed_offset(patch: pytest.MonkeyPatch) -> None:
    """A partition that was taken over is read from one record too far."""
    really_take = Positions.take_committed

    def take_committed(self: Positions, state: Any, version: int, offset: int | None, epoch: int) -> None:
        really_take(self, state, version, None if offset is None else offset + 1, epoch)

    patch.setattr(Positions, "take_committed", take_committed)


def transactions_end_before_their_records_are_written(patch: pytest.MonkeyPatch) -> None:
    """A commit does not wait for deliveries."""
    really_flush = Sender.flush

    async def flush(self: Sender, timeout: float | None = None) -> None:
        if self.session is None:
            await really_flush(self, timeout)

    patch.setattr(Sender, "flush", flush)


def aborted_records_are_handed_out(patch: pytest.MonkeyPatch) -> None:
    """A consumer does not look at which transactions were aborted."""

    def hides(self: Aborted, batch: object) -> bool:
        return False

    patch.setattr(Aborted, "hides", hides)


MUTANTS: list[Patch] = [
    batches_sent_again_get_new_numbers,
    numbers_are_used_twice,
    holes_do_not_raise_the_epoch,
    batches_overtake_those_that_are_sent_again,
    what_was_fetched_is_committed,
    revoked_partitions_are_still_read,
    members_that_left_commit_under_no_name,
    members_begin_behind_the_committed_offset,
    transactions_end_before_their_records_are_written,
    aborted_records_are_handed_out,
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_rule_is_found(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)

    first = _RARE.get(mutant.__name__, 1)
    for seed in range(first, first + _SEEDS):
        try:
            result = run_client_seed(seed)
        except Exception:  # noqa: BLE001  # a step that must not happen is a finding like any other
            return
        if not result.sound:
            return
    pytest.fail(f"{mutant.__doc__} None of {_SEEDS} seeds noticed.")
