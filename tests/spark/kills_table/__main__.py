"""The run without a JVM: `python -m tests.spark.kills_table --kills 200 --seed 1`, a few minutes."""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.spark.kills_table.small import TABLES, run_small


def main() -> int:
    """Kill until there are enough kills; 0 if there are, and each table holds each input once."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.kills_table", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lose-row", type=int, help="drop this row of each table, which has to be told")
    options = parser.parse_args()
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="everlog-kills-table-"))
    try:
        wrong, kills = run_small(folder, options.kills, options.seed, lose_row=options.lose_row)
    except Exception:
        print(f"all files are kept in {folder}")
        raise
    for problem in wrong:
        print(f"WRONG {problem}")
    seconds = time.monotonic() - began
    print(f"{kills.total()} kills, {len(TABLES)} tables without a JVM, {len(wrong)} wrong, {seconds:.0f} s")
    for kind, count in sorted(kills.items()):
        print(f"  {count:3} {kind}")
    if wrong:
        print(f"all files are kept in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    if kills.total() < options.kills:
        print(f"TOO FEW: {options.kills} kills were asked for")
    return 1 if wrong or kills.total() < options.kills else 0


if __name__ == "__main__":
    sys.exit(main())
