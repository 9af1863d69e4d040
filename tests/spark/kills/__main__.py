"""The long run, 30 to 60 minutes: `python -m tests.spark.kills --kills 200`.

Begun again, it goes on where it was stopped: the ledger knows who was killed, and another one begins anew.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path

from tests.spark.kills.campaign import Campaign, Report
from tests.spark.kills.class_archive import java_options
from tests.spark.kills.ledger import Count, Entry, Ledger, Progress, summary
from tests.spark.kills.plan import COMMIT_STEPS, SOMETIME, TASK_STEPS, Kill, Life, cheap_first, plan, rounds
from tests.spark.kills.victims import ROOT
from tests.spark.standalone import NoRoom

WORK = ROOT / ".work" / "spark-kills"
Numbered = tuple[int, Kill]


def main() -> int:
    """Kill as often as asked, and say what came of it; 1 if a row is not there once."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many processes to kill in all (200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ledger", type=Path, default=WORK / "ledger.jsonl", help="a line for each kill")
    parser.add_argument("--only", help="of the plan, what is of this sink, victim or life")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long, with fewer kills")
    parser.add_argument("--low-latency", action="store_true", help="topics are read with lowLatency=true")
    parser.add_argument("--small", type=int, default=0, help="kills without a JVM instead, so many")
    parser.add_argument("--no-two-phase", action="store_true", help="with --small: no two-phase commit")
    parser.add_argument("--summary", action="store_true", help="print the table of a ledger, kill nobody")
    given = parser.parse_args()
    if given.small:
        return _run_small(given.small, given.seed, two_phase=not given.no_two_phase)
    ledger = Ledger(given.ledger, given.seed)
    if not given.summary:
        deadline = time.monotonic() + 60 * given.minutes
        _run(ledger, given.kills, given.seed, given.only, deadline, low_latency=given.low_latency)
    print("\n" + summary(ledger.entries))
    return 0 if all(entry.right for entry in ledger.entries) else 1


def _run(
    ledger: Ledger, wanted: int, seed: int, only: str | None, deadline: float, *, low_latency: bool
) -> None:
    """Carry out what is left of the plan, life by life."""
    left = cheap_first(ledger.left_of(plan(wanted, seed)))
    if only is not None:
        left = [(n, kill) for n, kill in left if only in (kill.sink, kill.kind, kill.life.name)]
    progress = Progress(ledger, wanted)
    if not left:
        return
    progress.show()
    java = java_options(WORK)
    for life, block in groupby(left, key=lambda one: one[1].life):
        if time.monotonic() > deadline:
            return
        _live(life, list(block), ledger, progress, java, seed, deadline, low_latency=low_latency)


def _live(
    life: Life,
    kills: list[Numbered],
    ledger: Ledger,
    progress: Progress,
    java: str,
    seed: int,
    deadline: float,
    *,
    low_latency: bool,
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="everlog-kills-"))
    # Chance goes on from what is done: a run that is begun again does not repeat the same moments.
    chance = seed * 1_000_003 + kills[0][0]
    wrong = ""
    try:
        campaign = Campaign(
            folder,
            seed=chance,
            two_phase=life.two_phase,
            executors=life.executors,
            java=java,
            low_latency=low_latency,
        )
        with closing(campaign):
            for number, one in enumerate(rounds(kills, chance)):
                if time.monotonic() > deadline:
                    break
                began = time.monotonic()
                campaign.use(one[0][1].sink)
                count = campaign.round([(kill.kind, kill.step) for _, kill in one])
                seconds = (time.monotonic() - began) / len(one)
                ledger.write(_entries(f"{life.name} {kills[0][0]}", one, seed, number, seconds, count))
                progress.show()
                if not count.right:
                    wrong = f"{one}: {count}"
                    break
            if not wrong:
                report = campaign.finish()
                wrong = "" if report.right and not report.lag else f"{life.name}: {report}"
    except NoRoom as error:
        print(f"\nno executors are killed: {error}")
    finally:
        if not wrong:
            shutil.rmtree(folder, ignore_errors=True)
    if wrong:
        raise SystemExit(f"\nWRONG {wrong}; all files are kept in {folder}")


def _entries(
    life: str, kills: Sequence[Numbered], seed: int, number: int, seconds: float, count: Count
) -> list[Entry]:
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return [
        Entry(
            n, life, kill.sink, kill.kind, kill.step, seed, commit, number, round(seconds, 1),
            count.rows_in, count.rows_out, count.duplicates, count.losses,
        )
        for n, kill in kills
    ]  # fmt: skip


def _run_small(wanted: int, seed: int, *, two_phase: bool) -> int:
    """Kill processes that play Spark's part, without a JVM: hundreds in minutes."""
    began = time.monotonic()
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="everlog-kills-") as name:
        campaign = Campaign(Path(name) / "kills", seed=seed, two_phase=two_phase, spark=False)
        with closing(campaign):
            victims = {"task": (*TASK_STEPS, SOMETIME), "committer": COMMIT_STEPS}
            everywhere = (*TASK_STEPS, *COMMIT_STEPS, SOMETIME)
            for _ in range(wanted):
                kind = chance.choice(("task", "committer", "broker", "driver"))
                campaign.round([(kind, chance.choice(victims.get(kind, everywhere)))])
            report = campaign.finish()
    _tell(report, time.monotonic() - began)
    return 0 if report.right else 1


def _tell(report: Report, seconds: float) -> None:
    for kind, times in sorted(report.kills.items()):
        print(f"{times:5} {kind}")
    print(
        f"{report.kills.total()} kills without a JVM, {report.restarts} restarts of the driver, "
        f"{report.counts['topic']}, {len(report.left_open)} transactions left open, {seconds:.0f} s"
    )


def _stop(*_signal: object) -> None:
    sys.exit(143)


if __name__ == "__main__":
    # Asked to end, it takes its processes along; the ledger knows where to go on.
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(main())
