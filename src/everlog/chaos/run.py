"""Carries a scenario out on a cluster under load, and notes all that happens."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from everlog.chaos import faults
from everlog.chaos.disks import FullDisk
from everlog.chaos.faults import CannotBreak, FakeClock, Fault
from everlog.chaos.load import Load
from everlog.chaos.measures import unavailable_ms
from everlog.chaos.members import Group, UnreadEnd, read_all
from everlog.chaos.notes import Notes, StepDone, new_notes
from everlog.chaos.steps import Step, Verb
from everlog.chaos.target import Target
from everlog.chaos.transactions import TransactionLoad
from everlog.chaos.victims import has_shrunk, is_whole, led_by, pick_broker
from everlog.chaos.watch import Watch
from everlog.client.core.admin.topics import NewTopic
from everlog.client.sync.admin import Admin
from everlog.embedded.brokers import BrokerFailed

_LOOK_S = 0.02
_SETTLE_S = 60.0
_FINAL_S = 60.0


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run is made of."""

    topic: str = "everlog-chaos"
    partitions: int = 6
    replication: int = 3
    min_isr: int = 2
    rate: float = 200.0
    """Records a second."""
    transactions: float = 0.0
    """Transactions a second beside them; with any, readers see only what is committed."""
    size_bytes: int = 100
    lag_ms: int = 1_000
    """`replica.lag.time.max.ms`: a slow disk is so slow that a follower is behind for longer than that."""

    @property
    def slow_round_ms(self) -> int:
        """How long a follower with a slow disk takes to write what one fetch brings of all partitions."""
        return self.lag_ms * 3 // 2

    @property
    def slow_write_ms(self) -> int:
        """How much longer each write of a slow disk takes.

        No more than it needs to be: the node may vote in the quorum as well, and one whose every write takes
        seconds would be as good as dead there. Then two of three would be gone, and that is another test.
        """
        return max(10, self.slow_round_ms // self.partitions)


class ChaosRun:
    """One run. `say` is told in words what is going on."""

    def __init__(
        self, target: Target, steps: Sequence[Step], settings: RunSettings, say: Callable[[str], None]
    ) -> None:
        self._target = target
        self._steps = steps
        self._settings = settings
        self._say = say
        self.notes: Notes = new_notes()
        self._faults: list[tuple[Fault, float, str]] = []
        self._clocks: dict[int, FakeClock] = {}
        self._struck_ms = 0.0
        """When something was last broken that may keep partitions from being written."""
        self._struck_partitions: list[int] = []

    def run(self) -> Notes:
        """Do it all, from the topic's creation to the final read; brokers that were stopped run again."""
        self._create_topic()
        settings, notes = self._settings, self.notes
        bootstrap = self._target.bootstrap
        load = Load(bootstrap, settings.topic, settings.partitions, settings.rate, settings.size_bytes, notes)
        transactions = self._transactions()
        self._watch = Watch(bootstrap, settings.topic, notes)
        self._group = Group(bootstrap, settings.topic, notes, read_committed=transactions is not None)
        with tempfile.TemporaryDirectory(prefix="everlog-chaos-") as scratch:
            self._scratch = Path(scratch)
            self._watch.start()
            try:
                load.start()
                if transactions is not None:
                    transactions.start()
                self._group.scale(1, _SETTLE_S)
                for step in self._steps:
                    self._take(step)
                if self._faults or any(self._target.pid(node) is None for node in self._target.nodes):
                    self._take(Step(Verb.HEAL, amount=_SETTLE_S))
                load.stop(_SETTLE_S)
                if transactions is not None:
                    transactions.stop(_SETTLE_S)
                self._group.close()
                self._read_all()
            finally:
                self._end_faults()
                self._watch.stop()
        return notes

    def _transactions(self) -> TransactionLoad | None:
        settings = self._settings
        if not settings.transactions:
            return None
        return TransactionLoad(
            self._target.bootstrap,
            settings.topic,
            settings.partitions,
            settings.transactions,
            settings.size_bytes,
            self.notes,
        )

    def _create_topic(self) -> None:
        settings = self._settings
        with Admin(self._target.bootstrap, client_id="everlog-chaos") as admin:
            admin.create_topics(
                [
                    NewTopic(
                        settings.topic,
                        partitions=settings.partitions,
                        replication_factor=settings.replication,
                        configs={"min.insync.replicas": str(settings.min_isr)},
                    )
                ]
            )

    def _take(self, step: Step) -> None:
        done = StepDone(str(step), self.notes.clock.ms())
        self.notes.steps.append(done)
        self._say(f"{done.begin_ms / 1000:6.1f} s  {step}")
        try:
            self._do(step, done)
        except CannotBreak as error:
            done.skipped = str(error)
            self._say(f"          skipped: {error}")
        except BrokerFailed as error:
            done.failed = str(error)
        done.end_ms = self.notes.clock.ms()
        if done.failed:
            self._say(f"          failed: {done.failed}")
        for name, figure in done.figures.items():
            self._say(f"          {name} {figure:,.0f}")

    def _do(self, step: Step, done: StepDone) -> None:
        match step.verb:
            case Verb.LOAD:
                time.sleep(step.amount)
            case Verb.SLOW_DISK:
                node, pid = self._victim(step, done)
                self._break(
                    faults.slow_disk(pid, self._settings.slow_write_ms, self._settings.slow_round_ms),
                    done,
                    f"slow disk of {node}",
                )
            case Verb.FILL_DISK:
                node, pid = self._victim(step, done)
                ballast = self._target.ballast(node)
                fault = faults.full_disk(pid) if ballast is None else FullDisk(ballast)
                self._break(fault, done, f"full disk of {node}")
            case Verb.FAIL_FSYNC:
                node, pid = self._victim(step, done)
                self._break(faults.failing_fsync(pid), done, f"failing fsync of {node}")
            case Verb.AWAIT_SHRINK:
                self._await_shrink(step.amount, done)
            case Verb.KILL | Verb.STOP:
                self._end_broker(step, done)
            case Verb.PAUSE:
                node, pid = self._victim(step, done)
                fault = faults.pause(pid)
                self._break(fault, done, f"broker {node} is frozen")
                time.sleep(step.amount)
                self._end_fault(fault)
            case Verb.AWAIT_WRITABLE:
                self._await_writable(step.amount, done)
            case Verb.HEAL:
                self._heal(step.amount, done)
            case Verb.SCALE:
                if not self._group.scale(int(step.amount), _SETTLE_S):
                    done.failed = f"new members were told nothing within {_SETTLE_S:g} s"
            case Verb.RESTART_ALL:
                self._restart_all(step.amount, done)
            case Verb.JUMP_CLOCK:
                self._jump_clock(step, done)
            case _:
                assert_never(step.verb)

    def _victim(self, step: Step, done: StepDone) -> tuple[int, int]:
        """The broker that a step is about, and its process."""
        assert step.who is not None, step
        node = pick_broker(step.who, self._target, self._watch)
        pid = self._target.pid(node)
        if pid is None:
            raise BrokerFailed(f"broker {node}, the {step.who}, is not running")
        done.node = node
        done.means = done.means or "signals"
        self._struck_ms = self.notes.clock.ms()
        self._struck_partitions = led_by(node, self._watch)
        self._say(f"          broker {node} leads {len(self._struck_partitions)} partitions")
        return node, pid

    def _break(self, fault: Fault, done: StepDone, words: str) -> None:
        done.means = fault.means
        self._faults.append((fault, self.notes.clock.ms(), words))
        self._say(f"          {words} by {fault.means}")

    def _end_fault(self, fault: Fault) -> None:
        for entry in self._faults:
            if entry[0] is fault:
                self._faults.remove(entry)
                fault.end()
                self.notes.fault(entry[1], entry[2])
                return

    def _end_faults(self) -> None:
        for fault, _, _ in list(self._faults):
            self._end_fault(fault)

    def _end_broker(self, step: Step, done: StepDone) -> None:
        node, _ = self._victim(step, done)
        if step.verb is Verb.KILL:
            done.means = "SIGKILL"
            self._target.kill(node)
        else:
            done.means = "SIGTERM"
            self._target.stop(node)
        self.notes.fault(self._struck_ms, f"{step.verb} of broker {node}")

    def _await_shrink(self, limit_s: float, done: StepDone) -> None:
        began = self._struck_ms
        if self._watch.wait(has_shrunk, limit_s):
            done.figures["ISR shrunk after ms"] = self.notes.clock.ms() - began
        else:
            done.failed = f"all replicas are still in sync after {limit_s:g} s, expected one to be behind"

    def _await_writable(self, limit_s: float, done: StepDone) -> None:
        every = range(self._settings.partitions)
        deadline = time.monotonic() + limit_s
        while True:
            found = unavailable_ms(self.notes.acked, self._struck_ms, every)
            if len(found) == len(every) or time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_S)
        silent = [index for index in every if index not in found]
        if silent:
            done.failed = f"partitions {silent} took no record for {limit_s:g} s, expected all to take some"
        of_victim = [found[index] for index in self._struck_partitions if index in found]
        if found:
            done.figures["unavailable ms"] = max(of_victim or found.values())

    def _heal(self, limit_s: float, done: StepDone) -> None:
        self._end_faults()
        for clock in self._clocks.values():
            clock.set_ahead(0)
        for node in self._target.nodes:
            if self._target.pid(node) is None:
                self._start(node)
        began = done.begin_ms
        if self._watch.wait(is_whole, limit_s):
            done.figures["all in sync after ms"] = self.notes.clock.ms() - began
        else:
            behind = {
                index: sorted(set(each.replicas) - set(each.isr))
                for index, each in self._watch.partitions.items()
                if set(each.replicas) != set(each.isr)
            }
            done.failed = f"after {limit_s:g} s brokers are behind, expected none: {behind} by partition"

    def _restart_all(self, limit_s: float, done: StepDone) -> None:
        done.means = "SIGTERM"
        for node in self._target.nodes:
            began = self.notes.clock.ms()
            self._target.stop(node)
            self._start(node)
            self.notes.fault(began, f"restart of broker {node}")
            if not self._watch.wait(is_whole, limit_s):
                done.failed = f"not all replicas are in sync {limit_s:g} s after the restart of broker {node}"
                return

    def _jump_clock(self, step: Step, done: StepDone) -> None:
        assert step.who is not None, step
        node = next(
            (each for each, clock in self._clocks.items() if clock.ahead_s),
            pick_broker(step.who, self._target, self._watch),
        )
        clock = self._clocks.get(node)
        if clock is None:
            clock = FakeClock(self._scratch, node)
            self._clocks[node] = clock
            began = self.notes.clock.ms()
            self._target.stop(node)
            self._start(node)
            self.notes.fault(began, f"restart of broker {node} with a clock that can be set")
            self._watch.wait(is_whole, _SETTLE_S)
        self._struck_ms = self.notes.clock.ms()
        self._struck_partitions = led_by(node, self._watch)
        clock.set_ahead(clock.ahead_s + step.amount)
        done.node, done.means = node, f"libfaketime: {clock.ahead_s:+g} s"

    def _start(self, node: int) -> None:
        clock = self._clocks.get(node)
        self._target.start(node, {} if clock is None else clock.environment())

    def _read_all(self) -> None:
        done = StepDone("final read", self.notes.clock.ms())
        self.notes.steps.append(done)
        self._say(f"{done.begin_ms / 1000:6.1f} s  final read")
        try:
            settings = self._settings
            done.figures["records"] = read_all(
                self._target.bootstrap,
                settings.topic,
                settings.partitions,
                self.notes,
                _FINAL_S,
                read_committed=settings.transactions > 0,
            )
        except UnreadEnd as error:
            done.failed = str(error)
        done.end_ms = self.notes.clock.ms()
