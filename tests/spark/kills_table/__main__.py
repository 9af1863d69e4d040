"""The run without a JVM: `python -m tests.spark.kills_table --kills 200 --seed 1`, a few minutes."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.spark.kills_table.small import TABLES, run_small


def main() -> int:
    """Kill until there are enough kills; 0 if each table holds each input once."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.kills_table", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="everlog-kills-table-") as name:
        wrong, kills = run_small(Path(name), options.kills, options.seed)
    for problem in wrong:
        print(f"WRONG {problem}")
    seconds = time.monotonic() - began
    print(f"{kills.total()} kills, {len(TABLES)} tables without a JVM, {len(wrong)} wrong, {seconds:.0f} s")
    for kind, count in sorted(kills.items()):
        print(f"  {count:3} {kind}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
