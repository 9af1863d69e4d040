"""Rows R4, L8, P4, P5, C2: clients work while the broker is killed, stopped or paused; nothing is amiss.

`make chaos` runs the same for longer. What the checkers look for is written in `everlog.sim.checkers`.
"""

from pathlib import Path

import pytest

from everlog.sim.history import read_history
from tests import apache_kafka
from tests.e2e.workloads.chaos import Chaos, Report
from tests.e2e.workloads.targets import Apache, Everlog, Target

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.xdist_group("chaos")]

_LEAST = {"send ok": 100, "poll ok": 100, "txn ok": 100, "commit ok": 10, "balances ok": 5, "join ok": 4}


def _target(request: pytest.FixtureRequest, directory: Path) -> Target:
    if request.config.getoption("--broker") == "everlog":
        return Everlog(directory)
    if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
        pytest.skip(jars.reason)
    return Apache(directory)


def _assert_sound(report: Report, directory: Path) -> None:
    print(report)
    report.history.write(directory / "history.jsonl")
    assert report.sound, f"{report}\nthe history is in {directory / 'history.jsonl'}"
    for what, least in _LEAST.items():
        kind, outcome = what.split()
        found = sum(each.kind == kind and each.outcome == outcome for each in report.history.operations)
        assert found >= least, f"only {found} of {what}, expected {least}: {report}"


@pytest.mark.timeout(240)
def test_a_history_with_faults_is_sound(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    faults = ("kill", "pause", "stop")
    report = Chaos(_target(request, tmp_path), seed=7).run(25, faults)

    assert set(report.faults) == set(faults), report
    _assert_sound(report, tmp_path)
    assert read_history(tmp_path / "history.jsonl") == report.history
