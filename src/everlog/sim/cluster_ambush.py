"""Strikes that wait for their moment: what goes wrong only between two steps is hardly ever hit by chance."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everlog.sim.chance import SimRandom
from everlog.sim.platter import Loss

if TYPE_CHECKING:
    from everlog.sim.cluster_nemesis import ClusterNemesis
    from everlog.sim.cluster_world import ClusterWorld
    from everlog.sim.machine import Machine

_PATIENCE_MS = 3_000
_DOWN_MS = 1_500
_ALL_IN_SYNC = 3


@dataclass(slots=True)
class _Ambush:
    """Something that is to be done after a step of some machine."""

    until_ms: int
    is_moment: "Callable[[Machine], bool]"
    spring: "Callable[[Machine], None]"


class Ambushes:
    """All that waits."""

    def __init__(self, world: "ClusterWorld", nemesis: "ClusterNemesis") -> None:
        self._world = world
        self._nemesis = nemesis
        self._laid: list[_Ambush] = []

    def stepped(self, machine: "Machine") -> None:
        """A machine has made a step: whatever has waited for that is done, when the step is over."""
        if not self._laid:
            return
        now = self._world.time.now_ms()
        self._laid = [one for one in self._laid if one.until_ms > now]
        for one in [one for one in self._laid if one.is_moment(machine)]:
            self._laid.remove(one)
            self._world.time.at(0, lambda one=one: one.spring(machine))  # type: ignore[misc]

    def _lay(self, is_moment: "Callable[[Machine], bool]", spring: "Callable[[Machine], None]") -> None:
        self._laid.append(_Ambush(self._world.time.now_ms() + _PATIENCE_MS, is_moment, spring))

    # A leader dies as it commits without one of its followers.

    def strand(self, leader: "Machine", ms: int, chance: SimRandom) -> bool:
        """Cut a follower off, and kill the leader once it has committed something without that one.

        Who leads then has not heard of it, and the one that was cut off seems to have all that is committed.
        """
        if leader.node is None or not leader.serving:
            return False
        led = [
            replica
            for replica in leader.node.broker.replicas
            if replica.leading is not None and len(replica.leading.isr) >= _ALL_IN_SYNC
        ]
        if not led:
            return False
        replica = chance.pick(led)
        assert replica.leading is not None
        stranded = chance.pick(sorted(one for one in replica.leading.isr if one != leader.node_id))
        for other in self._world.machines:
            if other.node_id != stranded:
                for way in ((other.name, f"node{stranded}"), (f"node{stranded}", other.name)):
                    self._nemesis.close_route(self._world.mesh.route(*way), ms)
        known = int(replica.high_watermark)

        def is_moment(machine: "Machine") -> bool:
            leading = replica.leading
            return (
                machine is leader
                and machine.serving
                and leading is not None
                and stranded not in leading.isr
                and int(leading.high_watermark) > known
            )

        def spring(machine: "Machine") -> None:
            if machine.node is not None and self._world.may_stop([machine]):
                loss = self._nemesis.loss(chance)
                self._nemesis.crash(
                    machine, loss, _DOWN_MS, f"killed, as it has committed without {stranded}"
                )

        self._lay(is_moment, spring)
        return True

    # A follower that has caught up loses what it has before it counts.

    def relapse(self, follower: "Machine", ms: int, chance: SimRandom) -> bool:
        """Stop a follower, and again without power when it has caught up and is about to count as in sync.

        The word of that is on its way to the controller then, and arrives when the follower is back.
        """
        if not self._world.may_stop([follower]):
            return False
        self._nemesis.crash(follower, self._nemesis.loss(chance), chance.below(ms + 1), "killed")
        node_id = follower.node_id

        def is_moment(machine: "Machine") -> bool:
            node = machine.node
            if node is None or not machine.serving or node.quorum.is_active:
                return False
            if machine is follower or follower.node is None:
                return False
            return any(
                replica.leading is not None
                and replica.leading.proposed is not None
                and node_id in replica.leading.proposed
                and node_id not in replica.leading.isr
                for replica in node.broker.replicas
            )

        def spring(machine: "Machine") -> None:
            if follower.node is None or not self._world.may_stop([follower]):
                return
            for other in self._world.machines:
                if other.node is not None and other.node.quorum.is_active:
                    route = self._world.mesh.route(machine.name, other.name)
                    self._nemesis.close_route(route, 300 + chance.below(900))
            lost = Loss.NONE if self._nemesis.loss(chance) is Loss.NONE else Loss.ALL
            self._nemesis.crash(follower, lost, chance.below(20), "killed, as it has caught up")

        self._lay(is_moment, spring)
        return True
