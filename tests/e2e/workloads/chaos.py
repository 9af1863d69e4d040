"""Everything at once against a real process that is killed, stopped and paused; then the checkers.

`python -m tests.e2e.workloads.chaos --seconds 600` runs it by hand; `--broker apache` against Apache Kafka,
to see whether a finding is the broker's or the harness's.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from everlog.sim.chance import SimRandom
from everlog.sim.checkers import Violation, check, summary
from everlog.sim.history import History, Kind, Membership, Operation, Outcome, Pipeline, Promises, Recorder
from everlog.sim.script import Script
from everlog.sim.workloads.actor import Setting, Topic
from everlog.sim.workloads.appender import IdempotentAppender, PlainAppender
from everlog.sim.workloads.consuming import GroupConsumer
from everlog.sim.workloads.consuming import Pipeline as PipelineActor
from everlog.sim.workloads.membership import fetch_committed
from everlog.sim.workloads.reader import FinalReader, Reader
from everlog.sim.workloads.setup import Setup
from everlog.sim.workloads.transactions import Transactor
from tests.e2e.workloads.copies import HUNG, Copier
from tests.e2e.workloads.own_copies import OwnCopier
from tests.e2e.workloads.sockets import SocketPlayer
from tests.e2e.workloads.targets import SESSION_MS, Apache, Everlog, Target
from tests.e2e.workloads.transfers import ACCOUNTS, AT_FIRST, Auditor, Table, Transfers

_PARTITIONS = 3
_END_S = 20.0
"""How long clients may take to come to an end once they are told to."""
_SMALL = {"segment.bytes": "1048576"}
_TABLE = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "1048576",
}
_COPIERS = ("classic", "consumer", "confluent", "everlog")
_GROUPS = ("classic", "consumer", *(f"{kind}-copiers" for kind in _COPIERS))


class Client(Protocol):
    """Something that runs beside others until it is told to stop."""

    name: str

    def start(self) -> None: ...

    def join(self, timeout_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to."""

    history: History
    violations: list[Violation]
    problems: list[str]
    seconds: float
    faults: dict[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        outcomes = Counter(f"{each.kind} {each.outcome}" for each in self.history.operations)
        acked = sum(
            len(each.sends) for each in self.history.operations if each.outcome is Outcome.OK and each.sends
        )
        listed = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
        hung = sum(each.note == HUNG for each in self.history.operations)
        faults = ", ".join(f"{count} {name}" for name, count in self.faults.items())
        return (
            f"{len(self.history.operations)} operations in {self.seconds:.0f} s, {acked} records acked, "
            f"faults: {faults or 'none'}, {hung} clients hung, {len(self.violations)} violations\n{listed}\n"
            + "\n".join([summary(self.violations), *self.problems[:5]])
        )

    @property
    def sound(self) -> bool:
        return not self.violations and not self.problems


class Chaos:
    """One run against one broker."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        self._chance = SimRandom(seed)
        self._stopping = threading.Event()
        self.recorder = Recorder()
        self._setting = Setting(
            self.recorder,
            ticks=lambda: time.monotonic_ns() // 1000,
            wall=lambda: time.time_ns() // 1_000_000,
            stopping=self._stopping.is_set,
            session_ms=SESSION_MS,
        )
        self._faults: Counter[str] = Counter()
        host, _, port = target.bootstrap.rpartition(":")
        self._address = (host, int(port))

    def run(self, seconds: float, kinds: tuple[str, ...]) -> Report:
        """Load for so long, break things of these kinds meanwhile, heal, read everything, check."""
        started = time.monotonic()
        self._target.start()
        try:
            self._play("setup", Setup("setup", self._setting, self._chance.fork("setup")).script(_TOPICS), 60)
            self.recorder.promises = self._promises()
            clients = list(self._clients())
            for client in clients:
                client.start()
            self._break_things(seconds, kinds)
            self._stopping.set()
            self._wait_for(clients)
            self._play("final", self._final(), 90)
        finally:
            self._target.pause(on=False)
            self._target.kill()
        history = self.recorder.history()
        took = time.monotonic() - started
        return Report(history, check(history), self._setting.problems, took, dict(self._faults))

    def _wait_for(self, clients: list[Client]) -> None:
        start, deadline = self._setting.ticks(), time.monotonic() + _END_S
        for client in clients:
            client.join(max(1.0, deadline - time.monotonic()))
        # Nobody wants anything meanwhile, so that nothing succeeds.
        quiet = Operation("nemesis", Kind.FAULT, Outcome.OK, start, self._setting.ticks(), note="quiet")
        self.recorder.add(quiet)

    def _play(self, name: str, script: Script[None], timeout_s: float) -> None:
        player = SocketPlayer(name, script, self._address)
        player.start()
        player.join(timeout_s)

    def _break_things(self, seconds: float, kinds: tuple[str, ...]) -> None:
        end = time.monotonic() + seconds
        owed = list(kinds)
        while True:
            time.sleep(min(1.0 + self._chance.below(1_500) / 1000, max(0.0, end - time.monotonic())))
            if time.monotonic() >= end:
                return
            if owed:
                # Each kind comes once, before any comes again.
                self._break(owed.pop(self._chance.below(len(owed))))
            elif kinds:
                self._break(self._chance.pick(kinds))

    def _break(self, kind: str) -> None:
        start = self._setting.ticks()
        self._faults[kind] += 1
        if kind == "kill":
            self._target.kill()
            time.sleep(self._chance.below(300) / 1000)
            self._target.start()
        elif kind == "stop":
            self._target.stop()
            self._target.start()
        else:
            assert kind == "pause", kind
            self._target.pause(on=True)
            time.sleep(self._chance.below(3_000) / 1000)
            self._target.pause(on=False)
        self.recorder.add(
            Operation("nemesis", Kind.FAULT, Outcome.OK, start, self._setting.ticks(), note=kind)
        )

    def _promises(self) -> Promises:
        topics = self._setting.topics
        log, table = topics["log"].names(), topics["table"].names()
        return Promises(
            compacted=table,
            ticks_per_ms=1000,
            pipelines=tuple(
                Pipeline(f"{kind}-copiers", log, topics[f"{kind}-out"].names()) for kind in _COPIERS
            ),
            total=ACCOUNTS * AT_FIRST,
            longest_silence_ms=15_000,
        )

    def _clients(self) -> Iterator[Client]:
        topics, setting = self._setting.topics, self._setting
        log = topics["log"]
        plain = PlainAppender("plain", setting, self._chance.fork("plain"))
        idempotent = IdempotentAppender("idempotent", setting, self._chance.fork("idempotent"))
        reader = Reader("reader", setting, self._chance.fork("reader"))
        yield SocketPlayer("plain", plain.script(log), self._address)
        yield SocketPlayer("idempotent", idempotent.script(log), self._address)
        yield SocketPlayer("reader", reader.script(log, read_committed=False), self._address)
        for version in (1, 2):
            name = f"transactor{version}"
            actor = Transactor(name, setting, self._chance.fork(name))
            yield SocketPlayer(name, actor.transact(topics["tx"], name, version), self._address)
        for protocol in ("classic", "consumer"):
            for number in range(2):
                yield self._member(f"{protocol} member {number}", protocol, log)
            name = f"{protocol} copier"
            copier = PipelineActor(
                name, setting, self._chance.fork(name), f"{protocol}-copiers", log, protocol
            )
            version = 1 if protocol == "classic" else 2
            yield SocketPlayer(name, copier.process(topics[f"{protocol}-out"], version), self._address)
        yield from self._confluent(log)
        for number in range(2):
            name = f"own copier{number}"
            route = ("everlog-copiers", log, topics["everlog-out"])
            yield OwnCopier(name, setting, self._chance.fork(name), self._target.bootstrap, route)

    def _confluent(self, log: Topic) -> Iterator[Client]:
        topics, setting, bootstrap = self._setting.topics, self._setting, self._target.bootstrap
        for number in range(2):
            name = f"transfers{number}"
            yield Transfers(name, setting, self._chance.fork(name), bootstrap, topics["bank"])
        yield Table("table", setting, self._chance.fork("table"), bootstrap, topics["table"])
        route = ("confluent-copiers", log, topics["confluent-out"])
        for number in range(2):
            name = f"copier{number}"
            yield Copier(name, setting, self._chance.fork(name), bootstrap, route)
        auditor = Auditor("auditor", setting, self._chance.fork("auditor"))
        yield SocketPlayer("auditor", auditor.audit(topics["bank"]), self._address)

    def _member(self, name: str, protocol: str, topic: Topic) -> SocketPlayer:
        member = GroupConsumer(name, self._setting, self._chance.fork(name), protocol, topic, protocol)
        return SocketPlayer(name, member.consume(), self._address)

    def _final(self) -> Script[None]:
        reader = FinalReader("final", self._setting, self._chance.fork("final"))
        topics = self._setting.topics
        yield from reader.final_script(list(topics.values()))
        wall = self._setting.wall()
        yield from reader.look_up(topics["log"], [wall - self._chance.below(20_000) for _ in range(20)])
        for group in _GROUPS:
            yield from fetch_committed(reader, Membership(group), [topics["log"]], final=True)


_TOPICS = {
    "log": (_PARTITIONS, _SMALL),
    "tx": (_PARTITIONS, _SMALL),
    "classic-out": (2, _SMALL),
    "consumer-out": (2, _SMALL),
    "confluent-out": (2, _SMALL),
    "everlog-out": (2, _SMALL),
    "bank": (1, _SMALL),
    "table": (2, _TABLE),
}


def main() -> int:
    """Run it by hand; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.workloads.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long things are broken")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is broken when")
    parser.add_argument("--broker", choices=("everlog", "apache"), default="everlog")
    parser.add_argument("--faults", default="kill,stop,pause", help="which; empty for none")
    parser.add_argument("--history", type=Path, help="write the history here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory)
        target = Everlog(made) if given.broker == "everlog" else Apache(made)
        chaos = Chaos(target, given.seed)
        try:
            report = chaos.run(given.seconds, tuple(filter(None, given.faults.split(","))))
        finally:
            if given.history is not None:
                chaos.recorder.history().write(given.history)
    sys.stdout.write(f"{given.broker}, seed {given.seed}: {report}\n")
    return 0 if report.sound else 1


if __name__ == "__main__":
    sys.exit(main())
