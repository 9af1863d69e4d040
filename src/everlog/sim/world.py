"""A seed's world: one host, its clients, time, and everything that goes wrong."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from zlib import crc32

from everlog.model.ids import Instant
from everlog.node.node import Node
from everlog.sim.chance import SimRandom
from everlog.sim.checkers import Violation, check
from everlog.sim.clock import SimClock
from everlog.sim.ghosts import Ghosts
from everlog.sim.history import History, Kind, Operation, Outcome, Recorder
from everlog.sim.host import Host
from everlog.sim.loop import ADDRESS, Ears
from everlog.sim.losses import PowerFailure, forgive
from everlog.sim.nemesis import Nemesis
from everlog.sim.network import Connection, Weather
from everlog.sim.plan import Crashes, Plan, draw
from everlog.sim.player import Player
from everlog.sim.process import Process
from everlog.sim.script import Script
from everlog.sim.workloads.actor import Setting
from everlog.sim.workloads.cast import Cast, Troupe

_CALM = Weather()
_STUCK_MS = 90_000
"""How long clients may take to come to an end, and the final read to be complete, once all is healed."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a seed."""

    plan: Plan
    history: History
    violations: list[Violation]
    problems: list[str]
    fingerprint: int
    """Changes with any byte that went over the network and with when it did."""
    events: int
    simulated_ms: int

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.violations and not self.problems


class World:
    """One run. Everything that happens is an event of its heap, and every draw comes from its seed."""

    def __init__(self, plan: Plan, casting: Callable[[Plan, Setting, SimRandom], Troupe] = Cast) -> None:
        self.plan = plan
        self._casting = casting
        chance = SimRandom(plan.seed)
        self.clock = SimClock()
        self.weather = _CALM
        self.fingerprint = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._now = 0
        self._ran = 0
        self._ran_this_ms = 0
        self._chance = chance
        self._stopping = False
        self._failures: list[PowerFailure] = []
        self.recorder = Recorder()
        self.setting = Setting(
            self.recorder, self.ticks, self._wall, lambda: self._stopping, epoch=lambda: len(self._failures)
        )
        self.setting.forgetful = plan.crashes is Crashes.POWER
        self._ghosts = Ghosts(self.recorder, forgetful=self.setting.forgetful)
        self.host = Host(self, self.clock, chance.fork("host"), dict(plan.settings), self._stepped)
        self.host.on_recovered = self._recovered
        self.nemesis = Nemesis(self, chance.fork("nemesis"))
        self.host.kill_when_crashed = self.nemesis.crashed
        self._players: list[Player | Process] = []

    # What others ask of it.

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later."""
        assert delay_ms >= 0, delay_ms
        self._order += 1
        heappush(self._events, (self._now + delay_ms, self._order, action))

    def observe(self, frame: bytes) -> None:
        """Take bytes that arrive now into the fingerprint."""
        self.fingerprint = crc32(frame, crc32(self._now.to_bytes(8, "big"), self.fingerprint))

    def now_ms(self) -> int:
        """Milliseconds since it began."""
        return self._now

    def addresses(self, host: str) -> list[str]:
        """Every name is the same host's."""
        return [ADDRESS]

    def connect(self, address: str, chance: SimRandom, ears: Ears) -> Connection | None:
        """A connection of a process to the host; None while nobody listens."""
        if not self.host.serving:
            return None
        return Connection(self, self.host, lambda: self.weather, chance, ears.on_frame, ears.on_lost)

    def ticks(self) -> int:
        """The time of the history: a thousand to a millisecond, and later for each event within one."""
        return self._now * 1000 + min(self._ran_this_ms, 999)

    def note_fault(self, start: int, what: str) -> None:
        """Record that something was broken until now."""
        self.recorder.add(Operation("nemesis", Kind.FAULT, Outcome.OK, start, self.ticks(), note=what))

    def stopped(self) -> None:
        """The host stops now."""
        if self.host.node is not None and self.host.node.has_broker:
            self._ghosts.stopped(self.host.node)

    def _wall(self) -> int:
        # Clients have a clock of their own, which is right.
        return int(self.clock.wall()) - self.nemesis.jumped_ms

    # The run.

    def run(self) -> Result:
        """Run from the start to the end, and look at what came of it."""
        cast = self._casting(self.plan, self.setting, self._chance.fork("cast"))
        self.host.start()
        self._play("setup", cast.setup())
        self._run_until(self._all_done, "making topics")
        self.weather = self.plan.weather
        self.recorder.promises = cast.promises()
        for name, script in cast.scripts():
            self._play(name, script)
        self._run_programs(cast)
        self.nemesis.schedule(self.plan.faults)
        self.at(self.plan.load_ms, self._stop_clients)
        self._run_until(lambda: self._stopping, "the load")
        self.weather = _CALM
        self.nemesis.heal()
        self._run_until(self._all_done, "clients coming to an end")
        self._play("final", cast.final())
        self._run_until(self._all_done, "the final read")
        return self._result()

    def _play(self, name: str, script: Script[None]) -> None:
        chance = self._chance.fork(f"network of {name}")

        def connect(_node: int, on_frame: Callable[[bytes], None], on_lost: Callable[[], None]) -> Connection:
            return Connection(self, self.host, lambda: self.weather, chance, on_frame, on_lost)

        player = Player(name, script, self.at, connect)
        self._players.append(player)
        self.at(chance.below(20), player.start)

    def _run_programs(self, cast: Troupe) -> None:
        processes: list[Process] = []
        for name, program in cast.programs():
            process = Process(self, name, program, self._chance.fork(f"process {name}"))
            processes.append(process)
            self.at(self._chance.below(20), process.start)
        self._players += processes
        for delay_ms, number in self.plan.client_kills:
            if processes:
                self.at(delay_ms, processes[number % len(processes)].kill)

    def end(self) -> None:
        """End processes that are left, as after a failure: nothing of them is to outlive their world."""
        for player in self._players:
            if isinstance(player, Process):
                player.end()

    def _stop_clients(self) -> None:
        self._stopping = True

    def _all_done(self) -> bool:
        return all(player.done for player in self._players)

    def _run_until(self, over: Callable[[], bool], what: str, limit_ms: int = _STUCK_MS) -> None:
        limit = self._now + limit_ms
        while not over():
            assert self._events, f"nothing is left to happen during {what}"
            time, _, action = heappop(self._events)
            if time > limit:
                busy = [player.name for player in self._players if not player.done]
                raise AssertionError(f"{what} is not over after {limit_ms} ms; busy: {busy}")
            self._advance(time)
            action()

    def _advance(self, time: int) -> None:
        self._ran += 1
        self._ran_this_ms += 1
        if time > self._now:
            self._ran_this_ms = 0
            self.clock.advance(Instant(time - self._now))
            self._now = time

    def _stepped(self) -> None:
        if self.host.node is not None and self.host.serving:
            self._ghosts.step(self.host.node)

    def _recovered(self, node: Node) -> None:
        power = self.plan.crashes is not Crashes.KILL and self.host.life > 1
        ends = self._ghosts.recovered(node)
        if power:
            self._failures.append(PowerFailure(self.ticks(), ends))

    def _result(self) -> Result:
        forgiven = self.plan.crashes is Crashes.POWER
        history = forgive(self.recorder.history(), self._failures, acknowledged=forgiven)
        return Result(
            self.plan,
            history,
            check(history),
            self.setting.problems,
            self.fingerprint,
            self._ran,
            self._now,
        )


def run_seed(seed: int) -> Result:
    """Run one seed; what goes wrong inside is raised with the seed's plan."""
    plan = draw(seed)
    try:
        return World(plan).run()
    except Exception as error:
        error.add_note(f"{plan}\nreplay: python -m everlog.sim --seed {seed}")
        raise
