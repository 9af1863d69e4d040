"""The files of the guide to clusters are settings of nodes that make one cluster; the unit runs them."""

import re
from pathlib import Path

import pytest

from everlog.model.settings import BrokerSettings, parse_broker_settings
from tests.docs.test_guides import GUIDES

ROOT = GUIDES.parents[1]
FILES = re.findall(
    r"^```properties\n(.*?)^```$", (GUIDES / "cluster.md").read_text(), re.DOTALL | re.MULTILINE
)
NODES = FILES[:3]


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
