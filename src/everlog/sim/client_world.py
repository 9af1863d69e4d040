"""Seeds for the public clients: the same world, with programs that use them as any program does."""

from collections.abc import Generator
from contextlib import contextmanager
from random import Random

from everlog.client.core import surroundings
from everlog.sim.plan import draw_clients
from everlog.sim.workloads.client_cast import ClientCast
from everlog.sim.world import Result, World


@contextmanager
def _surrounded_by(world: World) -> Generator[None]:
    """Give clients the time of a world and chance from its seed."""
    before = surroundings.monotonic, surroundings.time_ns, surroundings.chance
    surroundings.monotonic = lambda: world.now_ms() / 1000
    surroundings.time_ns = lambda: world.setting.wall() * 1_000_000
    surroundings.chance = Random(f"{world.plan.seed}/clients")
    try:
        yield
    finally:
        surroundings.monotonic, surroundings.time_ns, surroundings.chance = before


def run_client_seed(seed: int) -> Result:
    """Run one seed; what goes wrong inside is raised with the seed's plan."""
    plan = draw_clients(seed)
    world = World(plan, ClientCast)
    try:
        with _surrounded_by(world):
            try:
                return world.run()
            finally:
                world.end()
    except Exception as error:
        error.add_note(f"{plan}\nreplay: python -m everlog.sim --workload clients --seed {seed}")
        raise
