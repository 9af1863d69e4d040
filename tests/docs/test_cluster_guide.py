"""The files of the guide to clusters are settings of nodes that make one cluster; the unit runs them."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import everlog
from everlog.model.settings import BrokerSettings, parse_broker_settings
from tests import brokers
from tests.docs.test_guides import GUIDES

ROOT = GUIDES.parents[1]
FILES = re.findall(
    r"^```properties\n(.*?)^```$", (GUIDES / "cluster.md").read_text(), re.DOTALL | re.MULTILINE
)
NODES = FILES[:3]
PATIENCE_S = 60.0


def settings(text: str) -> BrokerSettings:
    return parse_broker_settings(text, {})


def test_the_files_are_read_and_differ_only_where_they_must() -> None:
    assert [settings(text).node_id for text in FILES] == [1, 2, 3, 4]
    own = re.compile(r"^(node\.id|listeners|advertised\.listeners|broker\.rack|log\.dirs)=.*\n", re.MULTILINE)
    assert len({own.sub("", text) for text in NODES}) == 1


def test_every_node_is_where_the_quorum_looks_for_it() -> None:
    for text in NODES:
        found = settings(text)
        voter = next(each for each in found.voters if each.id == found.node_id)
        assert f"CONTROLLER://{voter.host}:{voter.port}" in text


def test_the_unit_runs_the_file_of_its_node_and_may_write_where_the_log_is() -> None:
    unit = (ROOT / "packaging" / "systemd" / "everlog@.service").read_text()

    assert "everlog server --config /etc/everlog/%i.properties" in unit
    writable = re.search(r"^ReadWritePaths=(\S+)$", unit, re.MULTILINE)
    assert writable is not None
    for text in FILES:
        log_dirs = re.search(r"^log\.dirs=(\S+)$", text, re.MULTILINE)
        assert log_dirs is not None
        assert Path(log_dirs[1]).is_relative_to(writable[1])
        assert Path(log_dirs[1]).name == str(settings(text).node_id)


@pytest.mark.parametrize("verb", ["health", "reassign", "elect", "decommission"])
def test_the_guide_shows_each_command(verb: str) -> None:
    assert f"everlog cluster {verb}" in (GUIDES / "cluster.md").read_text()


def on_loopback(text: str, ports: dict[str, int], directory: Path) -> str:
    """A file of the guide for this machine: other addresses, another directory, all else as it is."""
    for shown, port in ports.items():
        text = text.replace(shown, f"127.0.0.1:{port}")
    return text.replace("/var/lib/everlog", str(directory))


def until(holds: Callable[[], bool]) -> None:
    """Wait for news that is on its way from broker to broker."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.e2e
def test_the_files_of_the_guide_make_a_cluster(tmp_path: Path) -> None:
    shown = [f"10.0.0.{node}:{port}" for node in range(1, 5) for port in (9092, 9093)]
    free = [port + step for port in (brokers.free_port() for _ in range(4)) for step in (0, 1)]
    ports = dict(zip(shown, free, strict=True))

    def start(number: int) -> brokers.BrokerProcess:
        config = tmp_path / f"{number}.properties"
        config.write_text(on_loopback(FILES[number - 1], ports, tmp_path))
        return brokers.start(["server", "--config", str(config)], tmp_path / f"{number}.err", timeout_s=60)

    running: list[brokers.BrokerProcess] = []
    try:
        with ThreadPoolExecutor() as pool:
            running += pool.map(start, (1, 2, 3))
        bootstrap = ",".join(f"127.0.0.1:{ports[f'10.0.0.{node}:9092']}" for node in (1, 2, 3))
        with everlog.Admin(bootstrap) as admin:
            until(lambda: len(admin.describe_cluster().brokers) == 3)
            assert [broker.rack for broker in admin.describe_cluster().brokers] == ["a", "b", "c"]
            assert {voter.node_id for voter in admin.describe_quorum().voters} == {1, 2, 3}
            running.append(start(4))
            until(lambda: [broker.node_id for broker in admin.describe_cluster().brokers] == [1, 2, 3, 4])
            admin.create_topic("parcels", partitions=4)
            found = admin.describe_topics(["parcels"])["parcels"].partitions
            assert {len(partition.replicas) for partition in found.values()} == {3}
    finally:
        for broker in running:
            broker.kill()
