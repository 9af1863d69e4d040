"""Row O5 at a controller's listener: it reads as strictly, and what is refused ends its own connection."""

import random
import socket
import struct
from collections.abc import Generator
from importlib import import_module
from itertools import count

import pytest

from everlog.broker.desk.dispatch import ADVERTISED
from everlog.wire.apis import APIS
from everlog.wire.codec import encode_request
from tests import brokers
from tests.conformance import raw
from tests.conformance.clients import confluent

pytestmark = pytest.mark.e2e

_NUMBERS = count()
SERVED = {key: (APIS[key].min_version, APIS[key].max_version) for key in ADVERTISED}


class Node:
    """One node with both roles, and where its controller listens."""

    def __init__(self, process: brokers.BrokerProcess, port: int) -> None:
        self.process = process
        self.port = port

    def connected(self) -> socket.socket:
        """A connection to the controller's listener."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Generator[Node]:
    home = tmp_path_factory.mktemp("controller")
    port = brokers.free_port()
    config = home / "server.properties"
    config.write_text(
        "node.id=1\nprocess.roles=broker,controller\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port + 1},CONTROLLER://127.0.0.1:{port}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        f"controller.quorum.voters=1@127.0.0.1:{port}\nlog.dirs={home}/data\n"
    )
    process = brokers.start(["server", "--config", str(config)], home / "stderr")
    try:
        yield Node(process, port)
        assert process.stop() == 0, process.errors[-3000:]
    finally:
        process.kill()


@pytest.fixture(autouse=True)
def _it_goes_on(node: Node) -> Generator[None]:
    yield
    assert node.process.process.poll() is None, node.process.errors[-3000:]
    assert "Traceback" not in node.process.errors, node.process.errors[-3000:]
    confluent.connect(node.process.bootstrap).create_topic(f"after-{next(_NUMBERS)}", 1, {})


def _is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    return True


def test_every_request_with_nothing_in_it_is_answered(node: Node) -> None:
    for key, (low, high) in SERVED.items():
        api = APIS[key]
        module = import_module(f"everlog.wire.messages.{api.module}")
        for version in range(low, high + 1):
            with node.connected() as connection:
                connection.sendall(encode_request(getattr(module, f"{api.name}Request")(), version, 1, "x"))
                (size,) = struct.unpack(">i", raw.exactly(connection, 4))
                raw.exactly(connection, size)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        b"GET / HTTP/1.1\r\nHost: controller\r\n\r\n",
        struct.pack(">ihhih", 10, 0, 9, 1, -1),
        struct.pack(">ihhih", 10, 52, 99, 1, -1),
        struct.pack(">ihhih", 10, 52, 0, 1, -2),
        struct.pack(">ihhihi", 14, 19, 2, 1, -1, 2**31 - 1),
        struct.pack(">ihhihbi", 15, 59, 0, 1, -1, 0, -1),
    ],
    ids=[
        "a negative size",
        "an impossible size",
        "HTTP",
        "an API that a controller does not serve",
        "a version that does not exist",
        "a client id of negative length",
        "an array count beyond the bytes",
        "a varint without an end",
    ],
)
def test_what_cannot_be_read_ends_the_connection(node: Node, data: bytes) -> None:
    with node.connected() as connection:
        connection.sendall(data)
        assert _is_closed(connection)


def test_garbage_behind_a_header_ends_its_own_connection_only(node: Node) -> None:
    chance = random.Random(9)
    for _ in range(300):
        key = chance.choice(sorted(SERVED))
        body = chance.randbytes(chance.randrange(60))
        header = struct.pack(">hhih", key, chance.randint(*SERVED[key]), 1, -1)
        with node.connected() as connection:
            connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
