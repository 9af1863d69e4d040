"""Run seeds: `python -m everlog.sim --seed N [--seeds K] [--workload clients | --cluster]`, or `--check` one.

`--cluster --seed N --trace` tells what happened in a seed line by line, `--shrink` looks for a smaller run
that fails in the same way. `--processes 2` is for long runs: progress, and a report in JSON.
"""

import argparse
import logging
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from everlog.sim.checkers import check, summary
from everlog.sim.client_world import run_cluster_client_seed
from everlog.sim.cluster_plan import ClusterPlan, draw_cluster
from everlog.sim.cluster_trace import Trace
from everlog.sim.cluster_world import ClusterResult, client_names, run_cluster_plan, run_cluster_seed
from everlog.sim.history import read_history
from everlog.sim.long_run import WORLDS, run_long
from everlog.sim.shrink import shrink
from everlog.sim.world import Result

_WORLDS = {
    (False, "scripts"): "scripts",
    (False, "clients"): "clients",
    (True, "scripts"): "cluster",
    (True, "clients"): "cluster clients",
}
Run = Callable[[int], Result | ClusterResult]


def main() -> int:
    """Run what the arguments say; 1 if anything was found."""
    given = _arguments().parse_args()
    if given.check is not None:
        found = check(read_history(given.check))
        _print(summary(found))
        return 1 if found else 0
    world = _WORLDS[given.cluster, given.workload]
    if given.shrink:
        return _shrink(draw_cluster(given.seed), given.most_runs)
    if given.trace:
        run = run_cluster_seed if given.workload == "scripts" else run_cluster_client_seed
        return _trace(lambda trace: run(given.seed, trace), frames=not given.no_frames)
    logging.basicConfig(level=logging.CRITICAL)
    if given.processes:
        return 1 if run_long(world, given.seed, given.seeds, given.processes, given.report).failures else 0
    verbose = given.verbose or given.seeds == 1
    return _run(WORLDS[world], given.seed, given.seeds, given.history, verbose=verbose)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m everlog.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument(
        "--workload",
        choices=["clients", "scripts"],
        default="scripts",
        help="who works: small clients that are scripts, or programs with the public clients",
    )
    parser.add_argument("--cluster", action="store_true", help="on a cluster rather than on one node")
    parser.add_argument("--history", type=Path, help="write the history of the last seed here")
    parser.add_argument("--check", type=Path, help="check a history that somebody wrote, and run nothing")
    parser.add_argument("--verbose", action="store_true", help="print each seed's plan")
    parser.add_argument("--trace", action="store_true", help="tell what happens in the seed of a cluster")
    parser.add_argument("--no-frames", action="store_true", help="leave frames out of the trace")
    parser.add_argument("--shrink", action="store_true", help="make the failing seed of a cluster smaller")
    parser.add_argument("--most-runs", type=int, default=200, help="how often a run is tried for that")
    parser.add_argument("--processes", type=int, default=0, help="run on so many processes, with progress")
    parser.add_argument("--report", type=Path, help="where a long run writes its report")
    return parser


def _run(run: Run, first: int, count: int, history: Path | None, *, verbose: bool) -> int:
    failed = operations = simulated_ms = 0
    started = time.process_time()
    for seed in range(first, first + count):
        try:
            result = run(seed)
        except Exception:  # noqa: BLE001  # a seed that raises is a finding like any other
            failed += 1
            _print(f"seed {seed} failed:\n{traceback.format_exc()}")
            continue
        operations += len(result.history.operations)
        simulated_ms += result.simulated_ms
        if history is not None:
            result.history.write(history)
        if verbose:
            _print(str(result.plan))
            made = f"{len(result.history.operations)} operations, {result.events} events"
            _print(f"{made}, fingerprint {result.fingerprint:08x}")
        if not result.sound:
            failed += 1
            _print(_findings(result))
    took = time.process_time() - started
    _print(
        f"{count} seeds, {failed} failed, {operations} operations, {simulated_ms / 1000:.0f} simulated s "
        f"in {took:.1f} CPU-s"
    )
    return 1 if failed else 0


def _trace(run: Callable[[Trace], ClusterResult], *, frames: bool) -> int:
    trace = Trace(_print, frames=frames)
    logger = logging.getLogger("everlog")
    logger.addHandler(trace)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        result = run(trace)
    except Exception:  # noqa: BLE001  # it is what the trace is for
        _print(traceback.format_exc())
        return 1
    finally:
        logger.removeHandler(trace)
        logger.propagate = True
    _print(_findings(result) if not result.sound else f"sound: {result.plan}")
    return 0 if result.sound else 1


def _shrink(plan: ClusterPlan, most_runs: int) -> int:
    logging.disable(logging.CRITICAL)

    def run(candidate: ClusterPlan) -> ClusterResult | Exception:
        try:
            return run_cluster_plan(candidate)
        except Exception as error:  # noqa: BLE001  # it is what is looked for
            return error

    first = run(plan)
    if isinstance(first, ClusterResult) and first.sound:
        _print(f"seed {plan.seed} is sound, there is nothing to make smaller")
        return 0
    found = shrink(plan, run, client_names(plan), most_runs)
    _print(f"{found.signature}\nafter {found.runs} runs: {found.plan}")
    return _trace(lambda trace: run_cluster_plan(found.plan, trace), frames=False)


def _findings(result: Result | ClusterResult) -> str:
    lines = [f"seed {result.plan.seed} is not sound: {result.plan}", summary(result.violations)]
    return "\n".join(lines + result.problems[:5])


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
