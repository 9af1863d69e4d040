"""Strikes a cluster when its plan says so, and mends everything in the end."""

import errno
from functools import partial
from typing import TYPE_CHECKING

from everlog.sim.chance import SimRandom
from everlog.sim.cluster_ambush import Ambushes
from everlog.sim.cluster_plan import Blow, Mark, Strike
from everlog.sim.cluster_rot import Rot
from everlog.sim.faults import Fault, Kind, Moment
from everlog.sim.network import Weather
from everlog.sim.plan import Crashes
from everlog.sim.platter import Loss

if TYPE_CHECKING:
    from everlog.sim.cluster_world import ClusterWorld
    from everlog.sim.machine import Machine
    from everlog.sim.mesh import Route

_STORM = Weather(delay_ms=100, late_percent=30, late_ms=2_000, cut_percent=10)
_JUMPS_MS = (-1_800_000, -5_000, 3_000, 60_000, 1_800_000)
_MOST_JUMPED_MS = 1_800_000
_LOOK_AGAIN_MS = 500
_BOUNCE_MS = 40
_BACK_MS = 6


class ClusterNemesis:
    """All that is done to machines, disks and routes."""

    def __init__(self, world: "ClusterWorld", chance: SimRandom) -> None:
        self.struck: dict[str, int] = {}
        """How often each blow was dealt."""
        self._world = world
        self._chance = chance
        self.ambushes = Ambushes(world, self)
        self._healed = False
        self._paused: dict[int, int] = {}
        """Machines that are paused, and since when."""
        self._jumped: dict[int, int] = {}

    def schedule(self, strikes: tuple[Strike, ...]) -> None:
        """Arrange for everything that the plan has."""
        for strike in strikes:
            self._world.time.at(strike.at_ms, lambda strike=strike: self._strike(strike))  # type: ignore[misc]

    def heal(self) -> None:
        """Mend what is broken, and break nothing any more."""
        self._healed = True
        for machine in self._world.machines:
            self._go_on(machine)
            machine.files.faults.clear()
            machine.files.quota_bytes = None
            # An operation that has no number.
            machine.files.crash_at(-1, Moment.BEFORE)
            if machine.node is None:
                self._start(machine)
            else:
                self._replace_broken(machine)
        self._world.mesh.heal()

    def crashed(self, machine: "Machine") -> None:
        """The disk has stopped a machine in the middle of an operation."""
        self.crash(machine, self.loss(self._chance), 300, "crashed in the middle of an operation")

    def failed(self, machine: "Machine", why: str) -> None:
        """A node has ended by itself, as it must where its disk fails it; somebody starts it again later."""
        self._world.say(f"{machine.name} ends by itself: {why}")
        self.crash(machine, Loss.NONE, 500, "ended by itself")

    def _replace_broken(self, machine: "Machine") -> None:
        """Start a node again that its disk has failed: it says so, and takes nothing more until then.

        Whoever does that waits until the others have what this one has.
        """
        if machine.node is None or not self._world.is_broken(machine):
            return
        if self._world.may_stop([machine]):
            self.failed(machine, "its disk has failed it")
        else:
            self._world.time.at(_LOOK_AGAIN_MS, lambda: self._replace_broken(machine))

    # Whom and what.

    def _strike(self, strike: Strike) -> None:
        if self._healed:
            return
        chance = self._chance.fork(f"strike {strike.number}")
        machine = self._marked(strike.mark, chance)
        if machine is None:
            return
        if self._deal(strike, machine, chance):
            self.struck[strike.blow] = self.struck.get(strike.blow, 0) + 1
            self._world.say(f"{strike.blow} of {machine.name} for {strike.lasts_ms} ms")

    def _marked(self, mark: Mark, chance: SimRandom) -> "Machine | None":
        """One that is up and is what the mark says; any that is up if nobody is that."""
        up = [machine for machine in self._world.machines if self._is_up(machine)]
        if not up:
            return None
        wanted = [machine for machine in up if self._world.is_marked(machine, mark)]
        return chance.pick(wanted or up)

    def _is_up(self, machine: "Machine") -> bool:
        return machine.node is not None and machine.node_id not in self._paused

    def _deal(self, strike: Strike, machine: "Machine", chance: SimRandom) -> bool:
        """Do it; False if it must not be done now."""
        ms = strike.lasts_ms
        match strike.blow:
            case Blow.KILL:
                return self._kill([machine], Loss.NONE, ms, chance)
            case Blow.KILL_SOON:
                if self._world.plan.crashes is Crashes.POWER:
                    # Nobody knows yet whether good copies will be left then.
                    return False
                moment = chance.pick((Moment.BEFORE, Moment.HALFWAY, Moment.AFTER))
                machine.crash_soon(chance.below(40), moment)
            case Blow.KILL_ALL:
                return self._kill(
                    [each for each in self._world.machines if self._is_up(each)], Loss.NONE, ms, chance
                )
            case Blow.POWER:
                return self._kill([machine], self.loss(chance), ms, chance)
            case Blow.POWER_ALL:
                up = [each for each in self._world.machines if self._is_up(each)]
                return self._kill(up, self.loss(chance), ms, chance)
            case Blow.STOP:
                # Whoever leaves is not in sync any more, and those that stay have to have everything.
                if not self._world.may_stop([machine]):
                    return False
                self._stop(machine, ms)
            case Blow.PAUSE:
                self._pause(machine, ms)
            case Blow.JUMP:
                self._jump(machine, chance.pick(_JUMPS_MS))
            case Blow.RESET:
                for wire in self._world.mesh.wires(machine.name):
                    if chance.happens(50):
                        wire.reset("the connection was reset")
                self._note_after(0, f"{machine.name} lost connections")
            case Blow.STORM:
                self._storm(ms)
                self._note_after(ms, "a storm")
            case Blow.BOUNCE:
                self._bounce(ms, chance)
            case Blow.STRAND:
                return self.ambushes.strand(machine, ms, chance)
            case Blow.RELAPSE:
                return self.ambushes.relapse(machine, ms, chance)
            case Blow.ROT:
                return self._rot(machine, ms, chance)
            case Blow.ROT_ALL:
                return self._rot(machine, ms, chance, all_stop=True)
            case Blow.WRITE_FAILS | Blow.SYNC_FAILS | Blow.DISK_FULL:
                return self._disk(strike.blow, machine, ms, chance)
            case _:
                self._close_routes(strike.blow, machine, ms, chance)
                # Routes of a swizzle close one after the other, and each for as long.
                self._note_after(2 * ms if strike.blow is Blow.SWIZZLE else ms, f"{machine.name} cut off")
        return True

    def _note_after(self, ms: int, what: str) -> None:
        """Put into the history what is broken from now on, once it is over."""
        since = self._world.time.ticks()
        self._world.time.at(ms + 1, lambda: self._world.note_fault(since, what))

    # Processes and power.

    def loss(self, chance: SimRandom) -> Loss:
        """What a crash takes of what was not synced, where the plan says that it may take anything."""
        if self._world.plan.crashes is Crashes.KILL:
            return Loss.NONE
        return chance.pick((Loss.ALL, Loss.SOME))

    def _kill(self, machines: "list[Machine]", loss: Loss, ms: int, chance: SimRandom) -> bool:
        if not self._world.may_stop(machines):
            return False
        for machine in machines:
            self.crash(machine, loss, chance.below(ms + 1), "killed")
        return True

    def crash(self, machine: "Machine", loss: Loss, down_ms: int, what: str) -> None:
        """End a machine's life now, and begin its next after a while."""
        world = self._world
        since = world.time.ticks()
        world.stopped(machine)
        machine.crash(loss)
        self._paused.pop(machine.node_id, None)
        world.say(f"{machine.name} {what}, unsynced writes lost: {loss.value}")
        world.time.at(10 if self._healed else down_ms, lambda: self._start(machine, since, what))

    def _stop(self, machine: "Machine", ms: int) -> None:
        world = self._world
        if not machine.serving:
            return
        since = world.time.ticks()

        def stopped() -> None:
            world.stopped(machine, clean=True)
            world.time.at(10 if self._healed else ms // 3, lambda: self._start(machine, since, "stopped"))

        machine.leave(stopped)

    def _start(self, machine: "Machine", since: int | None = None, what: str = "down") -> None:
        if machine.node is not None:
            return
        if since is not None:
            self._world.note_fault(since, f"{machine.name} {what}")
        if not self._healed and self._world.plan.crashes is not Crashes.POWER and self._chance.happens(15):
            # In the middle of its recovery, or soon after.
            machine.crash_soon(self._chance.below(60), self._chance.pick((Moment.BEFORE, Moment.HALFWAY)))
        self._world.say(f"{machine.name} starts")
        machine.start()

    def _bounce(self, ms: int, chance: SimRandom) -> None:
        """Kill one after another for a while; each is back before others have noticed much."""

        def kill() -> None:
            up = [machine for machine in self._world.machines if self._is_up(machine)]
            if up and not self._healed:
                self._kill([chance.pick(up)], self.loss(chance), _BACK_MS, chance)

        for at in range(0, ms, _BOUNCE_MS):
            self._world.time.at(at + chance.below(_BOUNCE_MS), kill)

    def _pause(self, machine: "Machine", ms: int) -> None:
        self._paused[machine.node_id] = self._world.time.ticks()
        machine.pause()
        life = machine.life
        self._world.time.at(ms, lambda: self._go_on(machine) if machine.life == life else None)

    def _go_on(self, machine: "Machine") -> None:
        since = self._paused.pop(machine.node_id, None)
        if since is not None:
            self._world.say(f"{machine.name} goes on")
            self._world.note_fault(since, f"{machine.name} paused")
            machine.go_on()

    def _jump(self, machine: "Machine", by_ms: int) -> None:
        jumped = self._jumped.get(machine.node_id, 0) + by_ms
        if abs(jumped) <= _MOST_JUMPED_MS:
            self._jumped[machine.node_id] = jumped
            machine.clock.jump(by_ms)

    # Disks.

    def _disk(self, blow: Blow, machine: "Machine", ms: int, chance: SimRandom) -> bool:
        world, files = self._world, machine.files
        if not world.has_copies_without(machine):
            return False
        match blow:
            case Blow.WRITE_FAILS:
                part = chance.pick(("", ".log"))
                files.faults.append(Fault(Kind.APPEND, errno.EIO, part, chance.below(10), times=1))
                self._watch_disk(machine, ms)
            case Blow.SYNC_FAILS:
                files.faults.append(Fault(Kind.SYNC, errno.EIO, ".log", chance.below(5), times=1))
                self._watch_disk(machine, ms)
            case _:
                files.quota_bytes = files.used_bytes + chance.below(2_000)
                world.time.at(ms, lambda: setattr(files, "quota_bytes", None))
        return True

    def _watch_disk(self, machine: "Machine", ms: int) -> None:
        """Let somebody look a while later whether the node has to be started again."""

        def look() -> None:
            if not self._healed and self._is_up(machine):
                self._replace_broken(machine)

        self._world.time.at(ms, look)

    def _rot(self, machine: "Machine", ms: int, chance: SimRandom, *, all_stop: bool = False) -> bool:
        """Let a bit of a disk change while its node is down, alone or with all others."""
        rot = Rot(self._world)
        places = rot.may_hit(machine)
        if not places:
            return False
        stopped = [each for each in self._world.machines if self._is_up(each)] if all_stop else [machine]
        for each in stopped:
            self.crash(each, Loss.NONE, chance.below(ms + 1), "stopped")
        path = rot.hit(machine, places, chance)
        if path is None:
            return False
        self._world.say(f"{path} of {machine.name} has rotted")
        return True

    # The network.

    def _storm(self, ms: int) -> None:
        mesh = self._world.mesh
        mesh.weather = _STORM

        def calm() -> None:
            if not self._healed:
                mesh.weather = self._world.plan.clients.weather

        self._world.time.at(ms, calm)

    def _close_routes(self, blow: Blow, machine: "Machine", ms: int, chance: SimRandom) -> None:
        mesh, world = self._world.mesh, self._world
        names = [each.name for each in world.machines]
        others = [name for name in names if name != machine.name]
        ends = others + (world.client_names() if chance.happens(40) else [])
        pairs: list[tuple[str, str]] = []
        match blow:
            case Blow.ISOLATE:
                ways = chance.pick(("both", "both", "in", "out"))
                pairs += [(machine.name, end) for end in ends] if ways != "in" else []
                pairs += [(end, machine.name) for end in ends] if ways != "out" else []
            case Blow.SPLIT:
                here = {name for name in names if chance.happens(50)} | {machine.name}
                pairs += [
                    (one, other) for one in names for other in names if (one in here) != (other in here)
                ]
            case Blow.BRIDGE:
                other = chance.pick(others or names)
                pairs += [(machine.name, other), (other, machine.name)]
            case Blow.CLOG:
                other = chance.pick(ends or names)
                pairs.append(chance.pick(((machine.name, other), (other, machine.name))))
            case Blow.SLOW:
                for other in ends:
                    self._slow(mesh.route(machine.name, other), ms)
                    self._slow(mesh.route(other, machine.name), ms)
            case _:
                pairs += [
                    (one, other) for one in names for other in names if one != other and chance.happens(60)
                ]
        swizzled = blow is Blow.SWIZZLE
        for one, other in pairs:
            route = mesh.route(one, other)
            world.time.at(chance.below(ms + 1) if swizzled else 0, partial(self.close_route, route, ms))

    def _slow(self, route: "Route", ms: int) -> None:
        route.weather = _STORM
        self._world.time.at(ms, lambda: setattr(route, "weather", None))

    def close_route(self, route: "Route", ms: int) -> None:
        """Let nothing through on a route for a while."""
        if self._healed:
            return
        route.close()

        def reopen() -> None:
            if not self._healed:
                route.open()

        self._world.time.at(1 + ms, reopen)
