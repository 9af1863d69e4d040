"""The long run: `python -m tests.spark.kills --kills 200`."""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.spark.kills.campaign import COMMIT_STEPS, TASK_STEPS, Campaign, any_kill


def main() -> int:
    """Kill as often as asked, and say what came of it; 1 if a row is not there once."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many processes to kill in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--source",
        choices=["everlog", "files", "counted"],
        default="everlog",
        help="Spark reading a topic, Spark reading files, or the sink in processes without a JVM",
    )
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long, with fewer kills")
    parser.add_argument("--no-two-phase", action="store_true", help="a broker without two-phase commit")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="everlog-kills-"))
    began = time.monotonic()
    campaign = Campaign(folder, source=given.source, two_phase=not given.no_two_phase, seed=given.seed)
    try:
        # Each step once with each victim that is cheap, then whatever comes up; every tenth is the driver.
        planned = [(step, victim) for victim in ("self", "broker") for step in (*TASK_STEPS, *COMMIT_STEPS)]
        driver_steps = [*COMMIT_STEPS, *TASK_STEPS]
        while (count := campaign.report.kills.total()) < given.kills:
            if time.monotonic() - began > 60 * given.minutes:
                break
            if count % 10 == 5:
                if driver_steps:
                    campaign.kill_at(driver_steps.pop(0), "driver")
                else:
                    any_kill(campaign, driver=True)
            elif planned:
                campaign.kill_at(*planned.pop(0))
            else:
                any_kill(campaign, driver=False)
            now = campaign.report.kills.total()
            took = time.monotonic() - began
            print(f"{now} kills, {took:.0f} s, {campaign.driver.failures} failures", flush=True)
            if now % 10 == 0:
                campaign.catch_up()
        report = campaign.finish()
    finally:
        campaign.close()
    for kind, times in sorted(report.kills.items()):
        print(f"{times:5} {kind}")
    print(
        f"{report.kills.total()} kills, {report.restarts} restarts of the driver, {report.written} rows, "
        f"{len(report.missing)} missing, {len(report.doubled)} doubled, {len(report.left_open)} transactions "
        f"left open, lag {report.lag}, {time.monotonic() - began:.0f} s"
    )
    if report.violations:
        print(report.missing[:10], report.doubled[:10], report.left_open[:10], f"kept: {folder}")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
