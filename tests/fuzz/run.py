"""Fuzz the readers: `python -m tests.fuzz.run --target all --seconds 60`.

Each target runs in a child process with a limit on its memory and on the time of one input, until its
share of `--seconds` or of `--executions` is used up. New inputs that reach new code are kept below
`.work/fuzz` and tried first next time. An input that breaks a target is kept there too, under
`crashes`; put it into `tests/corpus/TARGET/` together with the fix. Exit code 1 if there was one.

It needs atheris, which is to be had for Linux on x86_64. The corpus is replayed by the tests without it.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from hashlib import sha1
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "corpus"
WORK = ROOT / ".work" / "fuzz"
SECONDS_AN_INPUT = 5
RESIDENT_MIB = 512
KEPT_FILES = 12
KEPT_BYTES = 8 << 10
"""What one target may add to the corpus in one go."""

_EXECUTED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_RUNNING = re.compile(r"^#(\d+)\s", re.MULTILINE)
_PEAK = re.compile(r"stat::peak_rss_mb:\s+(\d+)")


def main() -> None:
    """Fuzz, and print executions for each target and in all."""
    options = _options()
    names = list(TARGETS) if options.target == "all" else options.target.split(",")
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        sys.exit(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    if not options.keep and find_spec("atheris") is None:
        sys.exit(
            f"atheris is not installed, and fuzzing needs it: pip has it for Linux on x86_64, this is "
            f"{platform.system()} on {platform.machine()}. What was kept is replayed without it, by "
            "pytest tests/fuzz"
        )
    total, failed = 0, list[str]()
    started = time.monotonic()
    weights = sum(TARGETS[name].weight for name in names)
    for name in names:
        if options.keep:
            _keep(name)
            continue
        share = TARGETS[name].weight / weights
        executed, broken = _fuzz(name, options.seconds * share, round(options.executions * share))
        total += executed
        if broken:
            failed.append(name)
    if options.keep:
        return
    print(f"{'total':20} {total:>10,} executions in {time.monotonic() - started:.0f} s")
    if failed:
        sys.exit(f"found something in: {', '.join(failed)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--target", default="all", help="a target, several with commas, or all")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--executions", type=int, default=0, help="for all targets together; 0 is no limit")
    parser.add_argument("--keep", action="store_true", help="put some of what was found into tests/corpus")
    return parser.parse_args()


def _fuzz(name: str, seconds: float, executions: int) -> tuple[int, bool]:
    """Fuzz one target; return how many inputs it took and whether one of them broke it."""
    target = TARGETS[name]
    kept, crashes = WORK / "corpus" / name, WORK / "crashes" / name
    for directory in (kept, crashes):
        directory.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (kept / sha1(seed).hexdigest()).write_bytes(seed)
    committed = CORPUS / name
    for file in committed.iterdir() if committed.exists() else ():
        shutil.copy(file, kept / file.name)
    limits = [
        f"-max_len={target.largest_input}",
        f"-max_total_time={max(1, round(seconds))}",
        f"-timeout={SECONDS_AN_INPUT}",
        f"-rss_limit_mb={RESIDENT_MIB}",
        f"-artifact_prefix={crashes}/",
        "-print_final_stats=1",
        *([f"-atheris_runs={executions}"] if executions else []),
    ]
    started = time.monotonic()
    # The fuzzer ends its process at once, which leaves temporary files behind.
    with TemporaryDirectory(prefix="everlog-fuzz-") as scratch:
        child = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.child", name, *limits, str(kept)],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": scratch},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    output = child.stdout + child.stderr
    executed = _number(_EXECUTED, output) or _number(_RUNNING, output)
    rate = executed / max(0.001, time.monotonic() - started)
    verdict = "ok" if child.returncode == 0 else f"BROKEN, exit code {child.returncode}"
    peak = _number(_PEAK, output)
    print(f"{name:20} {executed:>10,} executions {rate:>9,.0f}/s  peak {peak:>3} MiB  {verdict}", flush=True)
    if child.returncode:
        print("\n".join(output.splitlines()[-40:]), flush=True)
    return executed, child.returncode != 0


def _keep(name: str) -> None:
    """Put some of the inputs that reached new code into the corpus, from the smallest to the largest."""
    seeds = {sha1(seed).hexdigest() for seed in TARGETS[name].seeds()}
    found = [file for file in (WORK / "corpus" / name).iterdir() if file.name not in seeds]
    found.sort(key=lambda file: (file.stat().st_size, file.name))
    room = KEPT_BYTES
    for file in found[:: max(1, len(found) // KEPT_FILES)]:
        room -= file.stat().st_size
        if room < 0:
            break
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, CORPUS / name / file.name)


def _number(pattern: re.Pattern[str], text: str) -> int:
    numbers = pattern.findall(text)
    return int(numbers[-1]) if numbers else 0


if __name__ == "__main__":
    main()
