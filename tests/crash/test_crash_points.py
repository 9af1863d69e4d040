"""A crash at every single change of the disk, with what was not synced lost, torn or kept (L10).

For each history the machine is stopped before every operation that changes the disk, and in the middle of
every write. What the disk may look like then is drawn several times; each time the logs are opened and
checked, opened again, and crashed again in between. `EVERLOG_CRASH_SEEDS` draws more often, and
`EVERLOG_CRASH_HISTORIES` makes up more histories.
"""

import os

import pytest

from everlog.model.topics import TopicPartition
from everlog.sim.chance import SimRandom
from everlog.sim.disk import SimFiles
from everlog.sim.faults import Crashed, Moment, Operation
from everlog.sim.platter import Loss
from tests.crash.checks import Found, check_directory, check_takes_records, found_again
from tests.crash.histories import SCRIPTED, History, random_work
from tests.crash.machine import SMALL, Machine, open_directory

SEEDS = int(os.environ.get("EVERLOG_CRASH_SEEDS", "3"))
RANDOM_HISTORIES = int(os.environ.get("EVERLOG_CRASH_HISTORIES", "10"))


class CrashEverywhere:
    """Watches a machine work, and shows at every point that a crash there would have been survived."""

    def __init__(self, name: str, machine: Machine, seeds: int) -> None:
        self.points = 0
        self.crashes = 0
        self._name = name
        self._machine = machine
        self._seeds = seeds
        machine.files.watch = self.watch

    def watch(self, operation: Operation, moment: Moment) -> None:
        # After one operation is before the next.
        if moment is not Moment.AFTER:
            self.crash(f"{moment.value} {operation}")

    def crash(self, when: str) -> None:
        self.points += 1
        variants = [(Loss.NONE, 0), (Loss.ALL, 0), *((Loss.SOME, seed) for seed in range(self._seeds))]
        for loss, seed in variants:
            self.crashes += 1
            chance = SimRandom(f"{self._name}/{when}/{seed}")
            found = self._machine.files.after_crash(chance, loss)
            try:
                self._survive(found, chance)
            except Exception as error:
                raise AssertionError(
                    f"{self._name}: crash {when}, loss {loss.value}, seed {seed}: {error}"
                ) from error

    def _survive(self, disk: SimFiles, chance: SimRandom) -> None:
        machine = self._machine
        directory = open_directory(disk, machine.clock)
        found = check_directory(directory, machine.ghosts, disk)
        tree = told_apart(disk)
        again = self._open_again(disk, chance, Loss.NONE, found)
        if not directory.clean:
            assert told_apart(again) == tree, "recovering a second time changed files"
        self._open_again(disk, chance, Loss.SOME, found)
        for partition in found:
            log = directory.get(partition, SMALL)
            assert log is not None
            check_takes_records(log)

    def _open_again(
        self, disk: SimFiles, chance: SimRandom, loss: Loss, expected: dict[TopicPartition, Found]
    ) -> SimFiles:
        """Stop right after the recovery, and recover."""
        machine = self._machine
        again = disk.after_crash(chance, loss)
        directory = open_directory(again, machine.clock)
        assert found_again(directory) == expected, "recovering a second time differs"
        return again


def told_apart(disk: SimFiles) -> dict[str, bytes | None]:
    """All files but for indexes without an entry, which may be there or not."""
    return {
        path: content
        for path, content in disk.tree().items()
        if content != b"" or not path.endswith(("index",))
    }


def crash_everywhere(name: str, history: History, seeds: int, room_bytes: int = 0) -> CrashEverywhere:
    machine = Machine()
    machine.files.room_bytes = room_bytes
    crasher = CrashEverywhere(name, machine, seeds)
    history(machine)
    crasher.crash("at the end")
    print(f"{name}: {crasher.points} crash points, {crasher.crashes} crashes survived")
    return crasher


@pytest.mark.parametrize("name", SCRIPTED)
def test_every_crash_is_survived(name: str) -> None:
    crasher = crash_everywhere(name, SCRIPTED[name], SEEDS)

    assert crasher.points > 50


@pytest.mark.parametrize("name", SCRIPTED)
def test_every_crash_is_survived_with_room_behind_the_logs_ends(name: str) -> None:
    crasher = crash_everywhere(name, SCRIPTED[name], 1, room_bytes=700)

    assert crasher.points > 50


@pytest.mark.parametrize("seed", range(RANDOM_HISTORIES))
def test_every_crash_in_random_work_is_survived(seed: int) -> None:
    crasher = crash_everywhere(f"random {seed}", lambda machine: random_work(machine, seed, 25), 1)

    assert crasher.points > 50


@pytest.mark.parametrize("name", SCRIPTED)
def test_every_crash_in_a_recovery_is_survived(name: str) -> None:
    whole = Machine()
    SCRIPTED[name](whole)
    points = 0
    for part in range(1, 6):
        machine = Machine()
        machine.files.crash_at(whole.files.operations * part // 6, Moment.HALFWAY)
        with pytest.raises(Crashed):
            SCRIPTED[name](machine)
        machine.files = machine.files.after_crash(SimRandom(f"{name}/{part}"))
        crasher = CrashEverywhere(f"recovery of {name}, part {part}", machine, seeds=1)
        machine.start()
        points += crasher.points

    assert points > 10


def test_a_power_failure_is_found_by_its_seed_again() -> None:
    trees: list[dict[str, bytes | None]] = []
    for _ in range(2):
        machine = Machine()
        SCRIPTED["retention"](machine)
        trees.append(machine.files.after_crash(SimRandom(3)).tree())

    assert trees[0] == trees[1]
