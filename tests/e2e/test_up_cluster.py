"""`everlog up --brokers N` as a process: its first line, its end, and what it says when a broker dies."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog import Admin
from tests import brokers

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

PATIENCE_S = 90.0


def children(process: "subprocess.Popen[str]") -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True)
    return [int(pid) for pid in listed.stdout.split()]


def eventually(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.1)


def start(directory: Path, errors: Path, *flags: str) -> brokers.BrokerProcess:
    return brokers.start(
        ["up", "--brokers", "3", "--dir", str(directory), *flags], errors, timeout_s=PATIENCE_S
    )


def is_gone(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def test_three_brokers_serve_end_together_and_are_found_again(tmp_path: Path) -> None:
    up = start(tmp_path / "data", tmp_path / "stderr", "--port", "0")
    try:
        addresses = up.bootstrap.split(",")
        assert len(set(addresses)) == 3
        with Admin(up.bootstrap) as admin:
            assert {one.node_id for one in admin.describe_cluster().brokers} == {1, 2, 3}
            admin.create_topic("orders")
        assert len(children(up.process)) == 3
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(PATIENCE_S) == 0
    finally:
        up.kill()
    assert all(map(is_gone, addresses))
    for node_id in (1, 2, 3):
        assert (tmp_path / "data" / f"broker-{node_id}" / ".kafka_cleanshutdown").exists()

    # Without --brokers: as many as there were, where they were.
    again = brokers.start(
        ["up", "--dir", str(tmp_path / "data"), "--port", "0"], tmp_path / "stderr", timeout_s=PATIENCE_S
    )
    try:
        assert again.bootstrap == up.bootstrap
        with Admin(again.bootstrap) as admin:
            assert "orders" in admin.list_topics()
        victim = children(again.process)[0]
        os.kill(victim, signal.SIGKILL)
        eventually("the death is reported", lambda: "been ended by SIGKILL" in again.errors)
        assert "everlog server --config" in again.errors
        # The others go on, and the whole ends with a code that says that not all went well.
        with Admin(again.bootstrap) as admin:
            admin.create_topic("more", replication_factor=2)
        assert again.stop(PATIENCE_S) == 1
    finally:
        again.kill()


def test_brokers_do_not_outlive_a_command_that_is_killed(tmp_path: Path) -> None:
    up = start(tmp_path / "data", tmp_path / "stderr", "--port", "0")
    addresses = up.bootstrap.split(",")

    up.kill()

    eventually("all brokers end by themselves", lambda: all(map(is_gone, addresses)))


def test_a_broker_that_cannot_start_ends_all_with_its_reason(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = int(listener.getsockname()[1])
        with pytest.raises(RuntimeError, match=f"broker 1 .*{taken}"):
            start(tmp_path / "data", tmp_path / "stderr", "--port", str(taken))
