"""Breaks things when the plan says so, and mends them in the end."""

from typing import TYPE_CHECKING, assert_never

from everlog.sim.chance import SimRandom
from everlog.sim.faults import Moment
from everlog.sim.network import Weather
from everlog.sim.plan import Crashes
from everlog.sim.platter import Loss

if TYPE_CHECKING:
    from everlog.sim.world import World

_STORM = Weather(delay_ms=200, late_percent=30, late_ms=3_000, cut_percent=15)


class Nemesis:
    """All that is done to the host and its network."""

    def __init__(self, world: "World", chance: SimRandom) -> None:
        self._world = world
        self._chance = chance
        self.jumped_ms = 0
        """How far the host's wall clock is from the right time."""
        self._down_since: int | None = None
        self._paused_since: int | None = None
        self._healed = False

    def schedule(self, faults: tuple[tuple[int, str], ...]) -> None:
        """Arrange for everything that the plan has."""
        for delay_ms, what in faults:
            self._world.at(delay_ms, lambda what=what: self._strike(what))  # type: ignore[misc]  # what is a str

    def heal(self) -> None:
        """Mend what is broken, and break nothing any more."""
        self._healed = True
        host = self._world.host
        if self._paused_since is not None:
            self._go_on()
        if host.node is None:
            self._start()
        else:
            host.crash_soon(-1 - host.files.operations, Moment.BEFORE)  # An operation that has no number.

    def crashed(self) -> None:
        """The disk has stopped the machine in the middle of an operation."""
        self._crash("crashed in the middle of an operation")

    def _strike(self, what: str) -> None:
        host = self._world.host
        if self._healed or host.node is None or self._paused_since is not None:
            return
        match what:
            case "kill":
                self._crash("killed")
            case "kill soon":
                moment = self._chance.pick((Moment.BEFORE, Moment.HALFWAY, Moment.AFTER))
                host.crash_soon(self._chance.below(60), moment)
            case "stop":
                self._stop()
            case "pause":
                self._paused_since = self._world.ticks()
                host.pause()
                self._world.at(self._chance.below(8_000), self._go_on)
            case "jump":
                self._jump()
            case "cut":
                for connection in host.connections():
                    if self._chance.happens(50):
                        connection.cut()
            case "storm":
                self._storm()
            case _:
                raise AssertionError(what)

    def _loss(self) -> Loss:
        match self._world.plan.crashes:
            case Crashes.KILL:
                return Loss.NONE
            case Crashes.POWER | Crashes.POWER_SYNCED:
                return self._chance.pick((Loss.ALL, Loss.SOME))
            case _:
                assert_never(self._world.plan.crashes)

    def _crash(self, what: str) -> None:
        world = self._world
        world.stopped()
        self._down_since = world.ticks()
        world.host.crash(self._loss())
        world.note_fault(self._down_since, what)
        if self._healed:
            world.at(10, self._start)
        else:
            world.at(self._chance.below(1_500), self._start)

    def _stop(self) -> None:
        world = self._world
        self._down_since = world.ticks()
        if not world.host.serving:
            return
        world.stopped()
        life = world.host.life
        world.host.stop()
        if world.host.node is None and world.host.life == life:
            world.note_fault(self._down_since, "stopped")
            world.at(self._chance.below(500), self._start)

    def _start(self) -> None:
        host = self._world.host
        if host.node is not None:
            return
        if not self._healed and self._chance.happens(20):
            # In the middle of its recovery, or soon after.
            host.crash_soon(self._chance.below(80), self._chance.pick((Moment.BEFORE, Moment.HALFWAY)))
        host.start()

    def _go_on(self) -> None:
        if self._paused_since is None:
            return
        since, self._paused_since = self._paused_since, None
        self._world.host.go_on()
        self._world.note_fault(since, "paused")

    def _jump(self) -> None:
        by = self._chance.pick((-1_800_000, -5_000, 3_000, 60_000, 1_800_000))
        if abs(self.jumped_ms + by) <= 1_800_000:
            self.jumped_ms += by
            self._world.clock.jump(by)

    def _storm(self) -> None:
        world, before = self._world, self._world.weather
        world.weather = _STORM

        def calm() -> None:
            if not self._healed:
                world.weather = before

        world.at(self._chance.below(2_000), calm)
