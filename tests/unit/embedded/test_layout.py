"""How a local cluster is laid out: who votes, which ports, what is kept for the next start."""

import json
import socket
from pathlib import Path

import pytest

from everlog.embedded.layout import Layout, controllers, properties_text, replication_defaults
from everlog.model.errors import ConfigError
from everlog.model.settings import broker_settings, parse_broker_settings
from everlog.model.settings import broker_table as keys


@pytest.mark.parametrize(("brokers", "voters"), [(2, 1), (3, 3), (4, 3), (5, 5), (6, 5), (12, 5)])
def test_an_odd_number_votes(brokers: int, voters: int, tmp_path: Path) -> None:
    layout = Layout.planned(tmp_path, brokers)

    assert controllers(brokers) == voters
    assert [one.node_id for one in layout.brokers if one.controller_port is not None] == [
        *range(1, voters + 1)
    ]
    assert layout.majority == voters // 2 + 1


@pytest.mark.parametrize("brokers", [2, 3, 6])
def test_every_broker_gets_settings_that_make_one_cluster(brokers: int, tmp_path: Path) -> None:
    layout = Layout.planned(tmp_path, brokers)
    told = [
        broker_settings(layout.settings(one, tmp_path, "127.0.0.1", {"num.partitions": "7"}))
        for one in layout.brokers
    ]

    assert [one.node_id for one in told] == [*range(1, brokers + 1)]
    assert len({one[keys.CLUSTER_ID] for one in told}) == 1
    assert len({one.voters for one in told}) == 1
    assert len({one.log_dirs for one in told}) == brokers
    ports = [listener.port for one in told for listener in one.listeners]
    assert len(set(ports)) == len(ports)
    by_id = {int(one.node_id): one for one in told}
    for voter in told[0].voters:
        (listener,) = by_id[voter.id].controller_listeners
        assert (voter.host, voter.port) == (listener.host, listener.port)
    assert {one[keys.NUM_PARTITIONS] for one in told} == {7}


def test_ports_follow_the_first_one(tmp_path: Path) -> None:
    layout = Layout.planned(tmp_path, 3, 9092)

    assert [one.port for one in layout.brokers] == [9092, 9093, 9094]


def test_ports_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="3 brokers from port 65534 on"):
        Layout.planned(tmp_path, 3, 65_534)


def test_the_next_start_finds_the_same_cluster(tmp_path: Path) -> None:
    layout = Layout.planned(tmp_path, 3)
    layout.keep(tmp_path)

    assert Layout.found(tmp_path) == layout
    assert Layout.planned(tmp_path, 3) == layout


def test_a_port_that_somebody_took_meanwhile_is_replaced(tmp_path: Path) -> None:
    layout = Layout.planned(tmp_path, 3)
    layout.keep(tmp_path)
    taken = layout.brokers[1].controller_port
    assert taken is not None

    with socket.create_server(("127.0.0.1", taken)):
        again = Layout.planned(tmp_path, 3)

    assert again.brokers[1].controller_port not in (taken, None)
    assert again.brokers[0] == layout.brokers[0]


def test_brokers_that_come_later_do_not_vote(tmp_path: Path) -> None:
    layout = Layout.planned(tmp_path, 3)
    layout.keep(tmp_path)

    grown = Layout.planned(tmp_path, 5)

    assert grown.brokers[:3] == layout.brokers
    assert [one.controller_port for one in grown.brokers[3:]] == [None, None]
    assert grown.cluster_id == layout.cluster_id


def test_a_smaller_cluster_is_refused(tmp_path: Path) -> None:
    Layout.planned(tmp_path, 3).keep(tmp_path)

    with pytest.raises(ConfigError, match="holds a cluster of 3 brokers, expected not more than 2"):
        Layout.planned(tmp_path, 2)


def test_the_data_of_a_single_broker_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("")

    with pytest.raises(ConfigError, match="holds the data of a single broker"):
        Layout.planned(tmp_path, 3)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cluster_id": "x", "brokers": [{"node_id": 1}]}', '{"brokers": 3}']
)
def test_a_damaged_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(text)

    with pytest.raises(ConfigError, match=r"cluster\.json cannot be read"):
        Layout.found(tmp_path)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"node_id": 3}, r"brokers \[3, 2\], expected 1, 2"),
        ({"node_id": True}, "brokers"),
        ({"node_id": "1"}, "brokers"),
        ({"port": 0}, "ports"),
        ({"port": 70_000}, "ports"),
        ({"port": 9092.0}, "ports"),
        ({"port": 9093}, "expected different ones"),
        ({"port": float("inf")}, "ports"),
        ({"controller_port": "9192"}, "ports"),
        ({"controller_port": None}, "votes"),
    ],
)
def test_a_file_that_no_start_has_written_is_named(
    changed: dict[str, object], problem: str, tmp_path: Path
) -> None:
    brokers = [
        {"node_id": 1, "port": 9092, "controller_port": 9192, **changed},
        {"node_id": 2, "port": 9093, "controller_port": None},
    ]
    kept = {"cluster_id": "4L6g3nShT-eMCtK--X86sw", "brokers": brokers}
    (tmp_path / "cluster.json").write_text(json.dumps(kept))

    with pytest.raises(ConfigError, match=rf"cluster\.json cannot be read.*{problem}"):
        Layout.found(tmp_path)


def test_json_that_is_nested_without_end_is_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("[" * 100_000)

    with pytest.raises(ConfigError, match=r"cluster\.json cannot be read"):
        Layout.found(tmp_path)


def test_what_the_layout_decides_cannot_be_overridden(tmp_path: Path) -> None:
    layout = Layout.planned(tmp_path, 3)

    with pytest.raises(ConfigError, match=r"node\.id cannot be overridden"):
        layout.settings(layout.brokers[0], tmp_path, "127.0.0.1", {"node.id": "7"})


def test_three_brokers_keep_three_copies_and_need_two() -> None:
    assert replication_defaults(1) == {}
    assert replication_defaults(2)["default.replication.factor"] == "2"
    assert replication_defaults(2)["min.insync.replicas"] == "1"
    for brokers in (3, 7):
        found = replication_defaults(brokers)
        assert found["default.replication.factor"] == found["offsets.topic.replication.factor"] == "3"
        assert found["min.insync.replicas"] == found["transaction.state.log.min.isr"] == "2"


def test_an_override_wins_over_the_defaults(tmp_path: Path) -> None:
    layout = Layout.planned(tmp_path, 3)

    told = layout.settings(layout.brokers[0], tmp_path, "127.0.0.1", {"min.insync.replicas": "1"})

    assert told["min.insync.replicas"] == "1"


def test_the_file_of_settings_says_what_the_broker_was_told(tmp_path: Path) -> None:
    odd = tmp_path / "a \\ b=c"
    layout = Layout.planned(odd, 3)
    told = layout.settings(layout.brokers[2], odd, "127.0.0.1", {})

    assert dict(parse_broker_settings(properties_text(told)).given) == told


def test_the_file_is_plain_json(tmp_path: Path) -> None:
    Layout.planned(tmp_path, 2).keep(tmp_path)

    kept = json.loads((tmp_path / "cluster.json").read_text())

    assert [one["node_id"] for one in kept["brokers"]] == [1, 2]
    assert kept["brokers"][1]["controller_port"] is None
