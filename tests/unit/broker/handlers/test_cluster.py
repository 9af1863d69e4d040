"""DescribeCluster, FindCoordinator and InitProducerId in all their versions (P4)."""

import errno

import pytest

from everlog.broker.access import NOT_ASKED
from everlog.model.errors import ErrorCode
from everlog.sim.faults import Fault, Kind
from everlog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from everlog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.unit.broker.handlers.nodes import SimNode


@pytest.mark.parametrize("version", range(3))
def test_every_version_describes_the_cluster(version: int) -> None:
    node = SimNode(broker_rack="r1")

    answer = node.ask(DescribeClusterRequest(), version, DescribeClusterResponse)

    assert answer.cluster_id == node.broker.cluster_id
    assert answer.controller_id == 1
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack) == (1, "broker.test", 9092, "r1")
    assert answer.cluster_authorized_operations == NOT_ASKED


def test_what_the_client_may_do_is_told_when_asked() -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)

    assert SimNode().ask(request, 0, DescribeClusterResponse).cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("kind", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_only_brokers_are_described_on_a_brokers_listener(kind: int, code: ErrorCode) -> None:
    answer = SimNode().ask(DescribeClusterRequest(endpoint_type=kind), 1, DescribeClusterResponse)

    assert answer.error_code == code
    assert answer.brokers == []


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("key_type", [0, 1])
def test_this_broker_coordinates_one_key(version: int, key_type: int) -> None:
    request = FindCoordinatorRequest(key="group", key_type=key_type if version else 0)

    answer = SimNode().ask(request, version, FindCoordinatorResponse)

    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "broker.test", 9092)


@pytest.mark.parametrize("version", range(4, 7))
def test_this_broker_coordinates_many_keys(version: int) -> None:
    node = SimNode()

    answer = node.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"]), version, FindCoordinatorResponse)

    assert [(one.key, one.node_id, one.host, one.port, one.error_code) for one in answer.coordinators] == [
        ("a", 1, "broker.test", 9092, 0), ("b", 1, "broker.test", 9092, 0),
    ]  # fmt: skip
    none = node.ask(FindCoordinatorRequest(coordinator_keys=[]), version, FindCoordinatorResponse)
    assert none.coordinators == []


def test_share_groups_have_no_coordinator() -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["g:t:0"])

    (answer,) = SimNode().ask(request, 6, FindCoordinatorResponse).coordinators

    assert (answer.error_code, answer.node_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_a_listener_that_the_broker_is_not_on_has_no_coordinator() -> None:
    node = SimNode()
    node.connect("OTHER")

    answer = node.ask(FindCoordinatorRequest(key="g"), 2, FindCoordinatorResponse)

    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def init(node: SimNode, version: int, **fields: object) -> InitProducerIdResponse:
    request = InitProducerIdRequest(**{"transactional_id": None, **fields})  # type: ignore[arg-type]
    return node.ask(request, version, InitProducerIdResponse)


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_a_fresh_producer_id(version: int) -> None:
    node = SimNode()

    answers = [init(node, version) for _ in range(3)]

    assert [(one.error_code, one.producer_id, one.producer_epoch) for one in answers] == [
        (0, 0, 0), (0, 1, 0), (0, 2, 0),
    ]  # fmt: skip


def test_a_producer_id_is_given_without_waiting_for_the_disk() -> None:
    node = SimNode()

    node.request(InitProducerIdRequest(transactional_id=None), 5)

    assert len(node.answers) == 1


def test_an_empty_transactional_id_and_half_an_identity_are_refused() -> None:
    node = SimNode()

    assert init(node, 5, transactional_id="").error_code == ErrorCode.INVALID_REQUEST
    assert init(node, 5, producer_id=7).error_code == ErrorCode.INVALID_REQUEST
    assert init(node, 5, producer_id=7, producer_epoch=1).error_code == 0


def test_a_producer_waits_out_a_failing_disk() -> None:
    node = SimNode()
    node.files.faults = [Fault(Kind.APPEND, errno.ENOSPC, "__cluster_metadata")]
    codes = [init(node, 4).error_code for _ in range(1001)]
    node.files.faults = []

    assert codes[:1000] == [0] * 1000
    assert ErrorCode(codes[1000]).retriable
    assert init(node, 4).error_code == 0
