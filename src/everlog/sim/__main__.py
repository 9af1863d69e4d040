"""Run seeds: `python -m everlog.sim --seed N [--seeds K] [--workload clients]`, or `--check` a history."""

import argparse
import logging
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from everlog.sim.checkers import check, summary
from everlog.sim.client_world import run_client_seed
from everlog.sim.history import read_history
from everlog.sim.world import Result, run_seed

Run = Callable[[int], Result]
_WORKLOADS: dict[str, Run] = {"scripts": run_seed, "clients": run_client_seed}


def main() -> int:
    """Run what the arguments say; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m everlog.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument(
        "--workload",
        choices=sorted(_WORKLOADS),
        default="scripts",
        help="who works: small clients that are scripts, or programs with the public clients",
    )
    parser.add_argument("--history", type=Path, help="write the history of the last seed here")
    parser.add_argument("--check", type=Path, help="check a history that somebody wrote, and run nothing")
    parser.add_argument("--verbose", action="store_true", help="print each seed's plan")
    given = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    if given.check is not None:
        found = check(read_history(given.check))
        _print(summary(found))
        return 1 if found else 0
    run = _WORKLOADS[given.workload]
    return _run(run, given.seed, given.seeds, given.history, verbose=given.verbose or given.seeds == 1)


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


def _findings(result: Result) -> str:
    lines = [f"seed {result.plan.seed} is not sound: {result.plan}", summary(result.violations)]
    return "\n".join(lines + result.problems[:5])


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
