"""Who takes part in a run, as its plan has it."""

from collections.abc import Callable, Iterator
from typing import Protocol

from everlog.sim.chance import SimRandom
from everlog.sim.history import Membership, Promises
from everlog.sim.history import Pipeline as PipelinePromise
from everlog.sim.plan import Plan
from everlog.sim.process import Program
from everlog.sim.script import Script
from everlog.sim.workloads.actor import Setting, Topic
from everlog.sim.workloads.appender import IdempotentAppender, PlainAppender
from everlog.sim.workloads.consuming import GroupConsumer, Pipeline
from everlog.sim.workloads.membership import fetch_committed
from everlog.sim.workloads.queued_appender import QueuedAppender
from everlog.sim.workloads.reader import FinalReader, Reader
from everlog.sim.workloads.setup import Setup
from everlog.sim.workloads.transactions import Transactor

CONSUMERS, COPIERS = "consumers", "copiers"


class Troupe(Protocol):
    """All clients of one run: scripts that are played, and programs that run on loops of their own."""

    def setup(self) -> Script[None]:
        """Make the topics."""
        ...

    def promises(self) -> Promises:
        """What the history is held to."""
        ...

    def scripts(self) -> Iterator[tuple[str, Script[None]]]:
        """Scripts that work while things break."""
        ...

    def programs(self) -> Iterator[tuple[str, Callable[[], Program]]]:
        """Programs that do so."""
        ...

    def final(self) -> Script[None]:
        """Read everything, after all is healed."""
        ...


class Cast:
    """All clients of one run."""

    def __init__(self, plan: Plan, setting: Setting, chance: SimRandom) -> None:
        self._plan = plan
        self._setting = setting
        self._chance = chance

    def setup(self) -> Script[None]:
        """Make the topics."""
        plan = self._plan
        configs = {"internal.segment.bytes": str(plan.segment_bytes), "index.interval.bytes": "200"}
        names = ["log"]
        names += ["tx"] if plan.transactors else []
        names += ["out"] if plan.pipelines else []
        wanted = dict.fromkeys(names, (plan.partitions, configs))
        if plan.transactors and plan.compacted:
            compact = {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0.01",
                "delete.retention.ms": str(plan.delete_retention_ms),
            }
            wanted["tx"] = (plan.partitions, configs | compact)
        if plan.internal_segment_bytes and plan.transactors + plan.members + plan.pipelines:
            small = {
                "cleanup.policy": "compact",
                "internal.segment.bytes": str(plan.internal_segment_bytes),
                "min.cleanable.dirty.ratio": "0.01",
            }
            wanted |= dict.fromkeys(("__consumer_offsets", "__transaction_state"), (2, small))
        setup = Setup("setup", self._setting, self._chance.fork("setup"))
        return setup.script(wanted, plan.replication)

    def promises(self) -> Promises:
        """What the history is held to."""
        topics, plan = self._setting.topics, self._plan
        pipelines: tuple[PipelinePromise, ...] = ()
        if plan.pipelines:
            pipelines = (PipelinePromise(COPIERS, topics["log"].names(), topics["out"].names()),)
        return Promises(
            ticks_per_ms=1000,
            pipelines=pipelines,
            compacted=topics["tx"].names() if plan.transactors and plan.compacted else (),
            delete_retention_ms=plan.delete_retention_ms,
        )

    def scripts(self) -> Iterator[tuple[str, Script[None]]]:
        """Everybody that works while things break."""
        plan, setting = self._plan, self._setting
        log = setting.topics["log"]
        for name in _names("plain", plan.plain_appenders):
            yield name, PlainAppender(name, setting, self._chance.fork(name)).script(log)
        for number, name in enumerate(_names("idempotent", plan.idempotent_appenders)):
            kind = QueuedAppender if number % 2 else IdempotentAppender
            yield name, kind(name, setting, self._chance.fork(name)).script(log)
        for name in _names("reader", plan.readers):
            topic = self._chance.pick(self._data_topics())
            reader = Reader(name, setting, self._chance.fork(name))
            yield name, reader.script(topic, read_committed=self._chance.happens(50))
        yield from self._transactors()
        for name in _names("member", plan.members):
            member = GroupConsumer(name, setting, self._chance.fork(name), CONSUMERS, log, plan.protocol)
            yield name, member.consume()
        for name in _names("pipeline", plan.pipelines):
            copier = Pipeline(name, setting, self._chance.fork(name), COPIERS, log, plan.protocol)
            yield name, copier.process(setting.topics["out"], self._chance.pick((1, 2, 2)))

    def programs(self) -> Iterator[tuple[str, Callable[[], Program]]]:
        """None."""
        yield from ()

    def _transactors(self) -> Iterator[tuple[str, Script[None]]]:
        version = self._chance.pick((1, 2, 2))
        # Two clients that take themselves for the same one fence each other all the time.
        shared = self._chance.happens(30)
        for number, name in enumerate(_names("transactor", self._plan.transactors)):
            transactor = Transactor(name, self._setting, self._chance.fork(name))
            transactional_id = "shared" if shared and number < 2 else name
            keys = 6 if self._plan.compacted else 0
            yield name, transactor.transact(self._setting.topics["tx"], transactional_id, version, keys)

    def final(self) -> Script[None]:
        """Read everything, after all is healed."""
        setting = self._setting
        reader = FinalReader("final", setting, self._chance.fork("final"))
        yield from reader.final_script(self._data_topics())
        wall = setting.wall()
        times = [wall - self._chance.below(10_000) for _ in range(10)]
        yield from reader.look_up(setting.topics["log"], times)
        for group, count in ((CONSUMERS, self._plan.members), (COPIERS, self._plan.pipelines)):
            if count:
                topics = [setting.topics["log"]]
                yield from fetch_committed(reader, Membership(group), topics, final=True)

    def _data_topics(self) -> list[Topic]:
        return [topic for topic in self._setting.topics.values() if not topic.name.startswith("__")]


def _names(kind: str, count: int) -> list[str]:
    return [f"{kind}{number}" for number in range(count)]
