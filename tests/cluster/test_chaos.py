"""`everlog chaos` by the real program: on brokers of its own, and on one that somebody else started."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from everlog.chaos.means import Means, probe
from everlog.sim.checkers import check
from everlog.sim.history import History, Kind, Operation, Outcome, Sent, read_history
from tests import brokers
from tests.e2e.program import Ran
from tests.e2e.program import everlog as run_everlog

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("chaos")]

LIMITS = ("--max-unavailable", "60000", "--max-pause", "60000")


def run_chaos(*arguments: str) -> Ran:
    return run_everlog("chaos", "run", *LIMITS, *arguments, timeout_s=240)


def test_a_broker_that_is_killed_and_filled_and_slowed_loses_nothing(tmp_path: Path) -> None:
    steps = "load:1 kill:leader heal await-writable fill-disk:leader load:1 heal slow-disk:leader load:1 heal"
    page, history = tmp_path / "chaos.html", tmp_path / "history.jsonl"

    ran = run_chaos(
        "--brokers", "1", "--partitions", "2", "--steps", f"{steps} scale:2 load:1", "--json",
        "--html", str(page), "--history", str(history),
    )  # fmt: skip

    assert ran.code == 0, ran.err
    found = ran.json
    assert (found["sound"], found["lost"], found["duplicated"], found["violations"]) == (True, 0, 0, [])
    assert found["acknowledged"] >= 200
    assert found["unavailable_ms"] > 0
    assert found["group_pause_ms"] is not None
    taken = {step["step"]: step for step in found["steps"]}
    assert [step.split(":")[0] for step in taken] == [
        "load", "kill", "heal", "await-writable", "fill-disk", "slow-disk", "scale", "final read",
    ]  # fmt: skip
    assert taken["kill:leader"]["broker"] == 1
    # What was not there to break things with was told; what was there was used.
    for step in ("fill-disk:leader", "slow-disk:leader"):
        assert bool(taken[step]["means"]) is not bool(taken[step]["skipped"])
    assert "verdict sound" in page.read_text()
    read = read_history(history)
    assert check(read) == []
    assert sum(each.kind is Kind.SEND for each in read.operations) >= found["acknowledged"]


def test_a_leader_that_dies_with_a_follower_behind_is_followed_by_one_in_sync() -> None:
    # The scenario `failover` with less time between its steps.
    steps = "load:1 slow-disk:follower await-shrink kill:leader await-writable heal scale:2 load:1"

    ran = run_chaos("--json", "--min-isr", "1", "--steps", steps)

    assert ran.code == 0, ran.err
    assert (ran.json["sound"], ran.json["lost"]) == (True, 0)
    assert ran.json["isr_shrink_ms"] is not None


def test_transactions_are_seen_as_a_whole_through_a_rolling_restart(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    rolling = ("--steps", "load:1 restart-all load:1", "--transactions", "20", "--partitions", "3")

    ran = run_chaos("--json", *rolling, "--history", str(path))

    assert ran.code == 0, ran.err
    assert (ran.json["sound"], ran.json["lost"], ran.json["duplicated"]) == (True, 0, 0)
    assert ran.json["transactions"]["committed"] > 0
    assert ran.json["transactions"]["aborted"] > 0
    # A judge that would take an aborted transaction for a committed one, or half of one, would show nothing.
    history = read_history(path)
    assert check(history) == []
    aborted = next(each for each in history.operations if each.kind is Kind.TXN and each.outcome == "fail")
    assert "C4" in _violated(history, aborted, replace(aborted, outcome=Outcome.OK))
    whole = next(each for each in history.operations if each.kind is Kind.TXN and each.outcome == "ok")
    more = (*whole.sends, Sent(whole.sends[0].partition, "never written"))
    assert "C13" in _violated(history, whole, replace(whole, sends=more))


def _violated(history: History, operation: Operation, changed: Operation) -> set[str]:
    """What is wrong with a history in which an operation is another."""
    told = tuple(changed if each is operation else each for each in history.operations)
    return {violation.invariant for violation in check(replace(history, operations=told))}


@pytest.mark.skipif("EVERLOG_CHAOS" not in os.environ, reason="takes minutes: EVERLOG_CHAOS=1, or make chaos")
def test_three_brokers_outlive_all_that_can_be_done_to_one() -> None:
    steps = (
        "load:1 pause:leader:3 await-writable heal stop:leader await-writable heal "
        "fail-fsync:follower load:1 heal fill-disk:follower load:1 heal "
        "jump-clock:leader:3600 load:1 await-writable heal restart-all load:1"
    )

    ran = run_chaos("--json", "--steps", steps)

    assert ran.code == 0, ran.err
    assert (ran.json["sound"], ran.json["lost"], ran.json["duplicated"]) == (True, 0, 0)


class Outsider:
    """A broker that was started by nobody of ours, with commands that find and start it."""

    def __init__(self, directory: Path) -> None:
        self._pid_file = directory / "pid"
        port = brokers.free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        arguments = [
            sys.executable,
            "-m",
            "everlog.cli.main",
            "up",
            "--dir",
            str(directory / "data"),
            "--port",
            str(port),
        ]
        script = directory / "start.py"
        script.write_text(
            "import subprocess, pathlib\n"
            f"command = {arguments!r}\n"
            "broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)\n"
            "assert broker.stdout.readline().startswith('ready')\n"
            f"pathlib.Path({str(self._pid_file)!r}).write_text(str(broker.pid))\n"
        )
        self.start_command = f"{sys.executable} {script}"
        self.pid_command = f"cat {self._pid_file}"

    def stop(self) -> None:
        os.kill(int(self._pid_file.read_text()), signal.SIGKILL)


@pytest.fixture
def outsider(tmp_path: Path) -> Generator[Outsider]:
    made = Outsider(tmp_path)
    subprocess.run(shlex.split(made.start_command), check=True, timeout=60)
    yield made
    made.stop()


def test_a_broker_that_runs_already_is_found_stopped_and_started_by_commands(outsider: Outsider) -> None:
    ran = run_chaos(
        "--bootstrap", outsider.bootstrap, "--brokers", "1", "--nodes", "1", "--partitions", "2",
        "--pid-command", outsider.pid_command, "--start-command", outsider.start_command,
        "--steps", "load:1 stop:leader heal await-writable load:1", "--json",
    )  # fmt: skip

    assert ran.code == 0, ran.err
    assert (ran.json["sound"], ran.json["lost"]) == (True, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--steps", "kill:nobody"),
            "step 'kill:nobody' says 'nobody': expected kill:leader|follower|controller",
        ),
        (("--steps", " "), "--steps names none, expected some"),
        (("--bootstrap", "127.0.0.1:1"), "expected --nodes, --pid-command, --start-command as well"),
        (("--nodes", "1"), "--nodes is about brokers that run already: expected --bootstrap as well"),
        (
            ("--bootstrap", "127.0.0.1:1", "--nodes", "x", "--pid-command", "a", "--start-command", "b"),
            "--nodes 'x' cannot be read: expected ids such as 1,2,3",
        ),
    ],
)
def test_wrong_usage_is_told(arguments: tuple[str, ...], message: str) -> None:
    ran = run_chaos(*arguments)

    assert ran.code == 2
    assert message in ran.err


def test_the_list_tells_what_the_machine_can_break() -> None:
    ran = run_everlog("chaos", "list", "--json")

    told = {each["means"]: each["there"] for each in ran.json["means"]}
    assert told == {means.value: probe(means).there for means in Means}
    assert "failover" in json.dumps(ran.json["scenarios"])
