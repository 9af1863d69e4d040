"""Who takes part in a run of the public clients."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from everlog.sim.chance import SimRandom
from everlog.sim.history import Promises
from everlog.sim.plan import Plan
from everlog.sim.process import Program
from everlog.sim.script import Script
from everlog.sim.workloads.actor import Setting
from everlog.sim.workloads.cast import CONSUMERS, COPIERS, Cast
from everlog.sim.workloads.client_consuming import GroupProgram
from everlog.sim.workloads.client_copying import CopyingProgram
from everlog.sim.workloads.client_producing import ProducingProgram
from everlog.sim.workloads.client_reading import ReadingProgram


class ClientCast(Cast):
    """Programs with public clients; topics are made, and read in the end, by the same scripts as ever."""

    def __init__(self, plan: Plan, setting: Setting, chance: SimRandom) -> None:
        super().__init__(plan, setting, chance)
        self._commits_itself = chance.happens(60)

    def promises(self) -> Promises:
        """What the history is held to."""
        return replace(super().promises(), at_least_once=(CONSUMERS,) if self._plan.members else ())

    def scripts(self) -> Iterator[tuple[str, Script[None]]]:
        """None."""
        yield from ()

    def programs(self) -> Iterator[tuple[str, Callable[[], Program]]]:
        """Everybody that works while things break."""
        plan = self._plan
        for number in range(plan.idempotent_appenders):
            yield self._lives(f"producer{number}", self._producing)
        for number in range(plan.readers):
            yield self._lives(f"reader{number}", self._reading)
        for number in range(plan.members):
            yield self._lives(f"member{number}", self._consuming)
        for number in range(plan.pipelines):
            yield self._lives(f"copier{number}", self._copying)

    def _lives(self, name: str, make: Callable[[str, str], Program]) -> tuple[str, Callable[[], Program]]:
        """A process, each life of which has a name of its own."""
        lives = count(1)
        return name, lambda: make(name, f"{name}.{next(lives)}")

    def _producing(self, _name: str, life: str) -> Program:
        return ProducingProgram(life, self._setting, self._chance.fork(life), self._setting.topics["log"])

    def _reading(self, _name: str, life: str) -> Program:
        chance = self._chance.fork(life)
        return ReadingProgram(life, self._setting, chance, chance.pick(self._data_topics()))

    def _consuming(self, _name: str, life: str) -> Program:
        log, protocol = self._setting.topics["log"], self._plan.protocol
        program = GroupProgram(life, self._setting, self._chance.fork(life), CONSUMERS, log, protocol)
        program.commits_itself = self._commits_itself
        program.ends_in_time = self._is_quiet()
        return program

    def _copying(self, name: str, life: str) -> Program:
        topics, protocol = self._setting.topics, self._plan.protocol
        route = (COPIERS, topics["log"], topics["out"])
        program = CopyingProgram(life, self._setting, self._chance.fork(life), route, protocol, name)
        program.ends_in_time = self._is_quiet()
        return program

    def _is_quiet(self) -> bool:
        weather = self._plan.weather
        return not (self._plan.faults or weather.late_percent or weather.cut_percent)
