"""R6, KIP-966: all replicas stop uncleanly at once, and one has lost records that were acknowledged."""

from dataclasses import replace

import pytest

from everlog.metadata.image import PartitionImage
from everlog.sim.checkers import summary
from everlog.sim.cluster_plan import ClusterPlan, draw_cluster
from everlog.sim.cluster_world import ClusterWorld
from everlog.sim.machine import Machine
from everlog.sim.network import Weather
from everlog.sim.plan import Crashes
from everlog.sim.platter import Loss

_TOPIC = "log"


def _plan(least_in_sync: int = 2, load_ms: int = 3_000) -> ClusterPlan:
    """Three nodes under a light load and without faults but those of a test."""
    plan = draw_cluster(1, quiet=True)
    clients = replace(
        plan.clients,
        crashes=Crashes.POWER_SYNCED,
        load_ms=load_ms,
        weather=Weather(),
        partitions=1,
        segment_bytes=1 << 20,
        plain_appenders=1,
        idempotent_appenders=1,
        transactors=0,
        members=0,
        pipelines=0,
    )
    settings = {
        **plan.settings,
        "min.insync.replicas": str(least_in_sync),
        "log.flush.interval.messages": "1",
        "log.flush.offset.checkpoint.interval.ms": "60000",
    }
    return replace(plan, clients=clients, strikes=(), nodes=3, drifts_ppm=(0, 0, 0), settings=settings)


def _partition(world: ClusterWorld) -> PartitionImage:
    image = world.ghosts.images.newest
    assert image is not None
    return image.topics[_TOPIC].partitions[0]


def _damage(machine: Machine) -> None:
    """Change a bit in the middle of the partition's log, so that what follows is lost with the next start."""
    path, data = next(
        (path, data)
        for path, data in sorted(machine.files.tree().items())
        if data and path.endswith(".log") and f"/{_TOPIC}-0/" in path
    )
    machine.files.flip_bit(path, len(data) // 2, 3)


class _Stop:
    """Stops all nodes uncleanly at once and starts them one after the other, one of them damaged."""

    def __init__(self, order: tuple[int, int, int], damaged: int, last_after_ms: int = 200) -> None:
        self._delays_ms = dict(zip(order, (0, 100, last_after_ms), strict=True))
        self._damaged = damaged
        self.last_at = 0
        """When the last one started."""
        self.led_at = 0
        """When somebody led the partition again."""

    def strike(self, world: ClusterWorld) -> None:
        for machine in world.machines:
            world.stopped(machine)
            machine.crash(Loss.NONE)
            if machine.node_id == self._damaged:
                _damage(machine)
            world.time.at(self._delays_ms[machine.node_id], machine.start)
        self.last_at = world.time.now_ms() + max(self._delays_ms.values())
        epoch = _partition(world).leader_epoch
        self._watch(world, epoch)

    def _watch(self, world: ClusterWorld, epoch: int) -> None:
        now = _partition(world)
        running = world.time.now_ms() >= self.last_at and all(one.node is not None for one in world.machines)
        if now.leader >= 0 and now.leader_epoch > epoch and running:
            self.led_at = world.time.now_ms()
        else:
            world.time.at(20, lambda: self._watch(world, epoch))


def _run(plan: ClusterPlan, stop: _Stop) -> ClusterWorld:
    world = ClusterWorld(plan)
    world.time.at(2_500, lambda: stop.strike(world))
    result = world.run()
    assert result.sound, "\n".join([summary(result.violations), *result.problems[:5]])
    return world


@pytest.mark.parametrize(("damaged", "least"), [(1, 2), (2, 1), (3, 2)])
def test_nothing_is_lost_that_a_copy_is_left_of(damaged: int, least: int) -> None:
    others = [one for one in (1, 2, 3) if one != damaged]

    stop = _Stop((others[0], others[1], damaged), damaged)
    world = _run(_plan(least), stop)

    assert any(one.acknowledged for one in world.ghosts.partitions.committed.values())
    assert stop.led_at - stop.last_at < 3_000, "it took too long until somebody led again"


def test_whoever_may_have_the_only_copy_is_waited_for() -> None:
    stop = _Stop((3, 1, 2), 1, last_after_ms=1_500)

    _run(_plan(load_ms=4_500), stop)

    assert stop.led_at >= stop.last_at > 0


class _HiddenRot:
    """Lets old records rot on a node that follows, and then makes it lead."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self.rotten = 0
        """The node whose copy rots."""
        self.led = False

    def strike(self) -> None:
        now = _partition(self._world)
        self.rotten = next(one for one in now.replicas if one != now.leader)
        machine = self._world.machines[self.rotten - 1]
        self._world.stopped(machine)
        machine.crash(Loss.NONE)
        names = [path for path in sorted(machine.files.tree()) if f"/{_TOPIC}-0/" in path]
        logs = [path for path in names if path.endswith(".log")]
        assert len(logs) > 3, "the first segment has been durable for long"
        machine.files.flip_bit(logs[0], 70, 2)
        image = self._world.ghosts.images.newest
        assert image is not None
        self._world.ghosts.rotted[image.topics[_TOPIC].id, 0] = self.rotten
        self._world.time.at(50, machine.start)
        self._world.time.at(100, self._make_it_lead)

    def _make_it_lead(self) -> None:
        now = _partition(self._world)
        if now.leader == self.rotten:
            self.led = True
        elif self.rotten in now.isr and self._world.machines[now.leader - 1].serving:
            leader = self._world.machines[now.leader - 1]
            self._world.stopped(leader)
            leader.crash(Loss.NONE)
            self._world.time.at(400, leader.start)
            self._world.time.at(100, self._make_it_lead)
        else:
            self._world.time.at(20, self._make_it_lead)


def test_a_leader_that_finds_rot_serves_none_of_it_and_others_lead(caplog: pytest.LogCaptureFixture) -> None:
    plan = _plan(load_ms=4_500)
    settings = {**plan.settings, "log.flush.offset.checkpoint.interval.ms": "200"}
    plan = replace(plan, clients=replace(plan.clients, segment_bytes=1_000), settings=settings)
    world = ClusterWorld(plan)
    rot = _HiddenRot(world)
    world.time.at(2_000, rot.strike)

    result = world.run()

    assert result.sound, "\n".join([summary(result.violations), *result.problems[:5]])
    assert rot.led
    said = [record.getMessage() for record in caplog.records]
    assert any("damaged records on disk, which are not served" in one for one in said)
    assert any(f"{_TOPIC}-0 is fetched again from 0 on, where it is damaged" in one for one in said)
    assert _partition(world).leader != rot.rotten
    assert len(_partition(world).isr) == len(world.machines), "it has everything again"
