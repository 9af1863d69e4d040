"""Long runs: many seeds of a world on several processes, a line of progress, and a report in JSON."""

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from everlog.sim.checkers import summary
from everlog.sim.client_world import run_client_seed, run_cluster_client_seed
from everlog.sim.cluster_world import ClusterResult, run_cluster_seed
from everlog.sim.history import Outcome
from everlog.sim.world import Result, run_seed

WORLDS: dict[str, Callable[[int], Result | ClusterResult]] = {
    "scripts": run_seed,
    "clients": run_client_seed,
    "cluster": run_cluster_seed,
    "cluster clients": run_cluster_client_seed,
}
_CHUNK = 10
_TWICE_EVERY = 100
"""One seed of so many is run twice, and has to be the same to the last byte."""


@dataclass(slots=True)
class Tally:
    """What came of some seeds."""

    seeds: int = 0
    failures: dict[int, str] = field(default_factory=dict[int, str])
    """By seed, what was found."""
    run_twice: int = 0
    operations: int = 0
    acknowledged: int = 0
    """Records that their writers were told of."""
    events: int = 0
    simulated_s: float = 0
    cpu_s: float = 0
    strikes: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, other: "Tally") -> None:
        """Take in what came of others."""
        self.seeds += other.seeds
        self.failures |= other.failures
        self.run_twice += other.run_twice
        self.operations += other.operations
        self.acknowledged += other.acknowledged
        self.events += other.events
        self.simulated_s += other.simulated_s
        self.cpu_s += other.cpu_s
        for name, count in other.strikes.items():
            self.strikes[name] = self.strikes.get(name, 0) + count


def run_seeds(world: str, first: int, count: int) -> Tally:
    """Run seeds one after another, in this process."""
    logging.disable(logging.CRITICAL)
    tally = Tally()
    began = time.process_time()
    for seed in range(first, first + count):
        tally.seeds += 1
        try:
            result = WORLDS[world](seed)
            _take_in(tally, seed, result)
            if seed % _TWICE_EVERY == 0:
                tally.run_twice += 1
                if WORLDS[world](seed).fingerprint != result.fingerprint:
                    tally.failures[seed] = "another run when it is repeated"
        except Exception:  # noqa: BLE001  # a seed that raises is a finding like any other
            tally.failures[seed] = traceback.format_exc()
    tally.cpu_s = time.process_time() - began
    return tally


def _take_in(tally: Tally, seed: int, result: Result | ClusterResult) -> None:
    operations = result.history.operations
    tally.operations += len(operations)
    tally.acknowledged += sum(len(each.sends) for each in operations if each.outcome is Outcome.OK)
    tally.events += result.events
    tally.simulated_s += result.simulated_ms / 1000
    if isinstance(result, ClusterResult):
        for name, count in result.struck.items():
            tally.strikes[name] = tally.strikes.get(name, 0) + count
    else:
        for _, name in result.plan.faults:
            tally.strikes[name] = tally.strikes.get(name, 0) + 1
    if not result.sound:
        tally.failures[seed] = "\n".join([str(result.plan), summary(result.violations), *result.problems[:5]])


def run_long(world: str, first: int, count: int, processes: int, report: Path | None) -> Tally:
    """Run seeds on so many processes; what is found is printed as it comes, and written to the report."""
    total = Tally()
    began = time.monotonic()
    with ProcessPoolExecutor(processes) as pool:
        futures: list[Future[Tally]] = [
            pool.submit(run_seeds, world, at, min(_CHUNK, first + count - at))
            for at in range(first, first + count, _CHUNK)
        ]
        for future in as_completed(futures):
            part = future.result()
            total.add(part)
            for seed, found in part.failures.items():
                sys.stdout.write(f"\n{world} seed {seed} failed:\n{found}\n")
            sys.stdout.write(f"\r{_progress(world, total, count, time.monotonic() - began)}")
            sys.stdout.flush()
    sys.stdout.write("\n")
    if report is not None:
        known: dict[str, object] = json.loads(report.read_text()) if report.exists() else {}
        known[world] = asdict(total) | {"first_seed": first, "wall_s": round(time.monotonic() - began, 1)}
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    return total


def _progress(world: str, total: Tally, count: int, wall_s: float) -> str:
    return (
        f"{world}: {total.seeds} of {count} seeds, {len(total.failures)} failed, "
        f"{total.acknowledged} records acknowledged, {total.simulated_s / 3600:.2f} simulated hours, "
        f"{total.cpu_s:.0f} CPU-s, {wall_s:.0f} s"
    )
