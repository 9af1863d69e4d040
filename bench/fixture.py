"""How long it takes until a broker of one's own answers: `everlog.Cluster`, and the pytest plugin's fixture.

`python -m bench.fixture` starts each kind in fresh processes and prints medians: from just before everlog is
imported, and from just before the cluster is made, until the first request is answered (ApiVersions, on a
plain socket) and until the first record is acknowledged (its topic made on the way, the producer imported).
In pytest both begin where the fixture does, which imports what it needs. It takes half a minute. With
`--check` it ends with 1 if a median up to the first answer is half a second or more.
"""

import argparse
import json
import socket
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

KINDS = ("thread", "process", "fixture")
LIMIT_MS = 500.0
_TIMEOUT_S = 60.0
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""Version 0, with no client id."""

_TEST = """
from bench import fixture

def test_it(everlog_bootstrap):
    fixture.note_ready(everlog_bootstrap)
"""


@dataclass(frozen=True, slots=True)
class Ready:
    """Milliseconds from the start until the first answer, and until the first acknowledged record."""

    import_ms: float
    """What of them passed before the cluster was begun; 0 for the fixture."""
    answer_ms: float
    ack_ms: float


def measure(kind: str) -> Ready:
    """Start one of a kind in a process of its own, as a script or a test run would."""
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, "-m", "bench.fixture", "--child", kind],
            cwd=Path(__file__).resolve().parents[1],
            input=directory,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{kind} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return Ready(**json.loads(done.stdout.splitlines()[-1]))


_began = _made = 0.0
_ready: Ready | None = None


def note_ready(bootstrap: str) -> None:
    """Ask and send for the first time, and note when that was done."""
    global _ready
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), _TIMEOUT_S) as link:
        link.sendall(_API_VERSIONS)
        assert link.recv(4)
    answered = time.perf_counter()
    from everlog import Producer

    with Producer(bootstrap) as producer:
        producer.send("first", b"record").result(_TIMEOUT_S)
        acknowledged = time.perf_counter()
    _ready = Ready(_ms(_made - _began), _ms(answered - _began), _ms(acknowledged - _began))


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _child(kind: str, directory: str) -> int:
    if kind == "fixture":
        return _child_pytest(directory)
    global _began, _made
    _began = time.perf_counter()
    from everlog import Cluster

    _made = time.perf_counter()
    with Cluster(processes=kind == "process") as cluster:
        note_ready(cluster.bootstrap_servers)
    return 0


def _child_pytest(directory: str) -> int:
    import pytest

    class Watch:
        @pytest.hookimpl(tryfirst=True)
        def pytest_fixture_setup(self, fixturedef: "pytest.FixtureDef[object]") -> None:
            global _began, _made
            if fixturedef.argname == "everlog_cluster":
                _began = _made = time.perf_counter()

    (Path(directory) / "test_it.py").write_text(_TEST)
    return int(pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", directory, directory], [Watch()]))


def main() -> int:
    """All kinds in turn; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=9, help="how often each kind is started")
    parser.add_argument("--check", action="store_true", help="fail where a median is half a second or more")
    parser.add_argument("--child", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        code = _child(options.child, sys.stdin.read())
        print(json.dumps(asdict(_ready)) if _ready is not None else "it did not become ready")
        return code
    slowest = 0.0
    print(f"medians of {options.rounds}, ms: {'first answer':>24} {'first record':>28}")
    found: dict[str, list[Ready]] = {kind: [] for kind in KINDS}
    for _ in range(options.rounds):
        for kind in KINDS:
            found[kind].append(measure(kind))
    for kind in KINDS:
        answer, ack, imports = (
            median(getattr(one, name) for one in found[kind]) for name in ("answer_ms", "ack_ms", "import_ms")
        )
        slowest = max(slowest, answer)
        worst = max(one.answer_ms for one in found[kind])
        print(
            f"{kind:8} answer {answer:6.0f} (without import {answer - imports:6.0f}, slowest {worst:6.0f})"
            f"   record {ack:6.0f} (without import {ack - imports:6.0f})"
        )
    if options.check and slowest >= LIMIT_MS:
        print(f"the slowest median is {slowest:.0f} ms, expected less than {LIMIT_MS:.0f} ms")
        return 1
    return 0


if __name__ == "__main__":
    # Under its own name, which the test that pytest runs imports it by.
    from bench import fixture

    sys.exit(fixture.main())
