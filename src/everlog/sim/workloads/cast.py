"""Who takes part in a run, as its plan has it."""

from collections.abc import Iterator

from everlog.sim.chance import SimRandom
from everlog.sim.plan import Plan
from everlog.sim.script import Script
from everlog.sim.workloads.actor import Setting
from everlog.sim.workloads.appender import IdempotentAppender, PlainAppender
from everlog.sim.workloads.reader import FinalReader, Reader
from everlog.sim.workloads.setup import Setup


class Cast:
    """All clients of one run."""

    def __init__(self, plan: Plan, setting: Setting, chance: SimRandom) -> None:
        self._plan = plan
        self._setting = setting
        self._chance = chance

    def setup(self) -> Script[None]:
        """Make the topics."""
        configs = {"internal.segment.bytes": str(self._plan.segment_bytes), "index.interval.bytes": "200"}
        wanted = {"log": (self._plan.partitions, configs)}
        return Setup("setup", self._setting, self._chance.fork("setup")).script(wanted)

    def scripts(self) -> Iterator[tuple[str, Script[None]]]:
        """Everybody that works while things break."""
        plan, setting = self._plan, self._setting
        log = setting.topics["log"]
        for name in _names("plain", plan.plain_appenders):
            yield name, PlainAppender(name, setting, self._chance.fork(name)).script(log)
        for name in _names("idempotent", plan.idempotent_appenders):
            yield name, IdempotentAppender(name, setting, self._chance.fork(name)).script(log)
        for name in _names("reader", plan.readers):
            reader = Reader(name, setting, self._chance.fork(name))
            yield name, reader.script(log, read_committed=self._chance.happens(50))

    def final(self) -> Script[None]:
        """Read everything, after all is healed."""
        setting = self._setting
        reader = FinalReader("final", setting, self._chance.fork("final"))
        yield from reader.final_script(list(setting.topics.values()))
        wall = setting.wall()
        times = [wall - self._chance.below(10_000) for _ in range(10)]
        yield from reader.look_up(setting.topics["log"], times)


def _names(kind: str, count: int) -> list[str]:
    return [f"{kind}{number}" for number in range(count)]
