"""Every API of a controller's listener, asked with nothing in it and with made-up names (O5).

Kafka's controller ended on a FetchSnapshot without topics (CVE-2026-83525): every array may be empty in every
request.
"""

from collections.abc import Iterator
from importlib import import_module

import pytest

from everlog.broker.desk.dispatch import ADVERTISED
from everlog.wire.apis import APIS
from everlog.wire.message import Message
from everlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.e2e.full_requests import full_requests
from tests.unit.broker.simulated import SimulatedNode

SERVED = {key: (APIS[key].min_version, APIS[key].max_version) for key in ADVERTISED}


@pytest.fixture
def node() -> SimulatedNode:
    return SimulatedNode(
        None,
        listeners="PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )


def requests(key: int, version: int) -> Iterator[tuple[str, Message]]:
    api = APIS[key]
    module = import_module(f"everlog.wire.messages.{api.module}")
    yield "nothing", getattr(module, f"{api.name}Request")()
    for array, _, request in full_requests(key, (version, version), 3, None):
        yield array, request


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: APIS[key].name)
def test_a_controller_answers_a_request_with_nothing_in_it_and_goes_on(node: SimulatedNode, key: int) -> None:
    low, high = SERVED[key]
    for version in range(low, high + 1):
        for array, request in requests(key, version):
            client = node.client("CONTROLLER")
            client.ask(request, version)
            node.aside.run_all()

            assert len(client.frames) == 1, (version, array)
            assert client.open, (version, array)

    node.pass_time(10_000)
    create = CreateTopicsRequest(
        topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]
    )
    answer = node.client("CONTROLLER").call(create, 7, CreateTopicsResponse)
    assert [topic.error_code for topic in answer.topics] == [0]
