"""The long run, 30 to 60 minutes: `python -m tests.spark.kills --kills 200`.

Begun again, it goes on where it was stopped: the ledger knows who was killed, and another one begins anew.
It ends with 1 if a row is not there once, or if there are fewer kills than were asked for.
"""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.spark.kills.class_archive import java_options
from tests.spark.kills.ledger import Ledger, summary
from tests.spark.kills.plan import Kill, plan, small_plan
from tests.spark.kills.run import Run
from tests.spark.kills.victims import ROOT

WORK = ROOT / ".work" / "spark-kills"
ONLY = (
    "kills that are of one of these, with commas in between: a sink (topic, tables, delta-upsert, rows), a "
    "victim (task, committer, executor, driver, broker), a step, `sometime` for random moments, a life "
    "(local, cluster); given again, of one of those as well"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill as often as asked, and say what came of it; 1 if a row is not there once or kills are missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many processes to kill in all (200)")
    parser.add_argument("--seed", type=int, help="of the plan and of chance (1; with --summary all)")
    parser.add_argument("--ledger", type=Path, help="a line for each kill (.work/spark-kills/ledger.jsonl)")
    parser.add_argument("--only", action="append", default=[], metavar="WORD[,WORD…]", help=ONLY)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long, with fewer kills")
    parser.add_argument("--low-latency", action="store_true", help="topics are read with lowLatency=true")
    parser.add_argument("--small", type=int, default=0, help="kills without a JVM instead, so many")
    parser.add_argument("--no-two-phase", action="store_true", help="with --small: no two-phase commit")
    parser.add_argument("--lose-row", type=int, help="with --small: drop this row, which has to be told")
    parser.add_argument("--summary", action="store_true", help="print the table of a ledger, kill nobody")
    given = parser.parse_args(arguments)
    path = given.ledger or WORK / ("small.jsonl" if given.small else "ledger.jsonl")
    seed = 1 if given.seed is None else given.seed
    if given.summary:
        return _tell(Ledger(path, given.seed), [], low_latency=False)
    if given.lose_row is not None and not given.small:
        parser.error("--lose-row is of --small: Spark loses no row on purpose")
    try:
        kills = (
            small_plan(given.small, seed, two_phase=not given.no_two_phase)
            if given.small
            else plan(given.kills, seed, given.only)
        )
    except ValueError as error:
        parser.error(str(error))
    ledger = Ledger(path, seed)
    run = Run(
        ledger,
        seed,
        time.monotonic() + 60 * given.minutes,
        given.low_latency,
        lambda: "" if given.small else java_options(WORK),
        given.lose_row,
    )
    wrong = run.carry_out(kills)
    if wrong:
        print(f"\nWRONG {wrong}")
    return max(_tell(ledger, kills, low_latency=given.low_latency), 1 if wrong else 0)


def _tell(ledger: Ledger, wanted: Sequence[Kill], *, low_latency: bool) -> int:
    """Print what a ledger has; 1 if something is wrong with it or missing."""
    print("\n" + summary(ledger.entries))
    if ledger.of_other_seeds:
        print(f"{ledger.of_other_seeds} kills of other seeds are left out")
    left = len(ledger.left_of(wanted, low_latency=low_latency))
    if left:
        print(f"TOO FEW: {left} of {len(wanted)} kills were not made")
    if not ledger.entries:
        print("TOO FEW: there is no kill in this ledger")
    right = bool(ledger.entries) and not left and all(entry.right for entry in ledger.entries)
    return 0 if right else 1


def _stop(*_signal: object) -> None:
    sys.exit(143)


if __name__ == "__main__":
    # Asked to end, it takes its processes along; the ledger knows where to go on.
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(main())
