"""Seeds for the public clients: the same world, with programs that use them as any program does."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from random import Random
from threading import get_ident
from typing import TypeVar

from everlog.client.core import surroundings
from everlog.sim.cluster_plan import draw_cluster_clients
from everlog.sim.cluster_trace import Trace
from everlog.sim.cluster_world import ClusterResult, ClusterWorld
from everlog.sim.plan import draw_clients
from everlog.sim.workloads.client_cast import ClientCast
from everlog.sim.world import Result, World

Told = TypeVar("Told")


class _ChanceHere(Random):
    """Chance of a seed for the thread that made it, and what was there before for all others.

    A client that a program left open reconnects on a thread of its own; each number that it drew would be
    missing in the world.
    """

    def __init__(self, seed: str, elsewhere: Random) -> None:
        super().__init__(seed)
        self._thread = get_ident()
        self._elsewhere = elsewhere

    def random(self) -> float:
        return super().random() if get_ident() == self._thread else self._elsewhere.random()

    def getrandbits(self, k: int, /) -> int:
        return super().getrandbits(k) if get_ident() == self._thread else self._elsewhere.getrandbits(k)


def _here(told: Callable[[], Told], elsewhere: Callable[[], Told]) -> Callable[[], Told]:
    thread = get_ident()
    return lambda: told() if get_ident() == thread else elsewhere()


@contextmanager
def _surrounded_by(seed: int, now_ms: Callable[[], int], wall_ms: Callable[[], int]) -> Generator[None]:
    """Give clients of this thread the time of a world and chance from its seed."""
    before = surroundings.monotonic, surroundings.time_ns, surroundings.chance
    surroundings.monotonic = _here(lambda: now_ms() / 1000, before[0])
    surroundings.time_ns = _here(lambda: wall_ms() * 1_000_000, before[1])
    surroundings.chance = _ChanceHere(f"{seed}/clients", before[2])
    try:
        yield
    finally:
        surroundings.monotonic, surroundings.time_ns, surroundings.chance = before


def run_client_seed(seed: int) -> Result:
    """Run one seed; what goes wrong inside is raised with the seed's plan."""
    plan = draw_clients(seed)
    world = World(plan, ClientCast)
    try:
        with _surrounded_by(seed, world.now_ms, world.setting.wall):
            try:
                return world.run()
            finally:
                world.end()
    except Exception as error:
        error.add_note(f"{plan}\nreplay: python -m everlog.sim --workload clients --seed {seed}")
        raise


def run_cluster_client_seed(seed: int, trace: Trace | None = None) -> ClusterResult:
    """Run one seed of the public clients on a cluster; what goes wrong inside is raised with its plan."""
    plan = draw_cluster_clients(seed)
    world = ClusterWorld(plan, trace, ClientCast)
    try:
        with _surrounded_by(seed, world.time.now_ms, world.setting.wall):
            try:
                return world.run()
            finally:
                world.end()
    except Exception as error:
        error.add_note(f"{plan}\nreplay: python -m everlog.sim --cluster --workload clients --seed {seed}")
        raise
