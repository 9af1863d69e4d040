"""`python -m tests.again`: the tests that failed last, once more, one after the other by themselves.

A test that passes now is not steady: it is named, so that somebody mends it, and fails nothing. One that
fails again has failed, and so have all where they are many, or where the run did not come to its end.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

MOST = 4
"""Where more have failed at once it was not for want of time."""
_ROOT = Path(__file__).parents[1]
_ENDED_AS = "everlog/ended-as"
_GROUP = re.compile(r"@[^\]]*$")
"""What pytest-xdist puts behind the name of a test of a group."""


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Note how a run ended: of one that was cut off nobody knows what would have failed."""
    if not hasattr(session.config, "workerinput"):
        session.config.cache.set(_ENDED_AS, int(exitstatus))


def main(root: Path = _ROOT) -> int:
    """Run them and return what the process is to end with."""
    ended_as = _read(root, _ENDED_AS)
    if ended_as != pytest.ExitCode.TESTS_FAILED:
        print(f"the last run ended with {ended_as}, expected one that failed by its tests", file=sys.stderr)
        return 1
    failed = cast("dict[str, bool]", _read(root, "cache/lastfailed") or {})
    names = [_GROUP.sub("", name) for name in failed]
    if not 0 < len(names) <= MOST:
        print(f"{len(names)} tests failed; 1 to {MOST} would be run again", file=sys.stderr)
        return 1
    again = subprocess.run([sys.executable, "-m", "pytest", *names], cwd=root)
    if again.returncode:
        return again.returncode
    print("not steady, as they failed and pass alone:", *names, sep="\n  ", file=sys.stderr)
    return 0


def _read(root: Path, key: str) -> object:
    """What pytest's cache has under a key, None for nothing."""
    path = root / ".pytest_cache" / "v" / key
    return json.loads(path.read_text()) if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
