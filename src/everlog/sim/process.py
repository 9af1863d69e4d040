"""A simulated process: a program on an event loop of its own, which may be killed and is started again."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from everlog.sim.chance import SimRandom
from everlog.sim.loop import SimLoop, Surroundings
from everlog.sim.workloads.actor import Setting

_DOWN_MS = 800


class Program(Protocol):
    """What a process runs."""

    async def run(self) -> None:
        """Work until told to stop."""
        ...

    def killed(self) -> None:
        """The process is gone: note what nobody will hear of, and nothing from here on."""
        ...


class Home(Surroundings, Protocol):
    """What a process asks of its world."""

    setting: Setting


class Process:
    """One program. Each start is a new life on a new loop, with nothing left of the one before."""

    def __init__(self, world: Home, name: str, make: Callable[[], Program], chance: SimRandom) -> None:
        self.name = name
        self.done = False
        self._world = world
        self._make = make
        self._chance = chance
        self._life: tuple[SimLoop, Program] | None = None
        self._lives = 0

    def start(self) -> None:
        """Begin a life."""
        self._lives += 1
        loop = SimLoop(self._world, self._chance.fork(f"life {self._lives}"))
        program = self._make()
        self._life = (loop, program)
        # A client may ask for the loop that runs when it is made, so the program makes its own within `run`.
        task = loop.create_task(program.run())
        task.add_done_callback(lambda ended: self._ended(loop, ended))

    def kill(self) -> None:
        """End it in the middle of whatever it does, and start it again a little later."""
        if self._life is None or self._world.setting.stopping():
            return
        self.end()
        self._world.at(self._chance.below(_DOWN_MS), self.start)

    def end(self) -> None:
        """End it for good, in the middle of whatever it does."""
        if self._life is not None:
            loop, program = self._life
            self._life = None
            program.killed()
            loop.kill()

    def _ended(self, loop: SimLoop, task: "asyncio.Task[None]") -> None:
        if loop.is_closed():
            return  # It was killed.
        self._life = None
        setting = self._world.setting
        if (error := task.exception()) is not None:
            setting.complain(self.name, f"ended with {error!r}")
        # What the last callbacks started may end first.
        self._world.at(1_000, lambda: self._tidy(loop))

    def _tidy(self, loop: SimLoop) -> None:
        for problem in loop.problems:
            self._world.setting.complain(self.name, problem)
        for task in loop.unfinished():
            self._world.setting.complain(self.name, f"left behind: {task}")
        loop.kill()
        self.done = True
