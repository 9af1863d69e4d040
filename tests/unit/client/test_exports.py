import inspect
import subprocess
import sys

import pytest

import everlog
from everlog import aio, client

PUBLIC = [
    "Admin",
    "AssignedMember",
    "Assignor",
    "AuthenticationFailed",
    "BatchMetadata",
    "BulkDelivery",
    "Closed",
    "ConfigError",
    "Consumer",
    "ConsumerRecord",
    "CorruptDataError",
    "DamagedBatch",
    "DeadLetters",
    "Delivery",
    "DeserializationError",
    "ErrorCode",
    "EverlogError",
    "Fenced",
    "GroupMetadata",
    "ItemsRefused",
    "LogTruncated",
    "Misused",
    "NewTopic",
    "NoOffset",
    "OffsetAndMetadata",
    "OffsetOutOfRange",
    "OffsetsNeeded",
    "Producer",
    "ProtocolError",
    "RebalanceListener",
    "RebalanceProtocol",
    "RecordMetadata",
    "Refused",
    "TimedOut",
    "TlsFailed",
    "TopicPartition",
    "TransactionAborted",
    "TransactionError",
    "TransactionFailed",
    "TransactionMisused",
    "Unreachable",
    "Unsendable",
    "UnsendableType",
    "Unsupported",
    "Woken",
]


def test_the_public_names_are_these() -> None:
    assert sorted(client.__all__) == PUBLIC
    assert sorted(everlog.__all__) == sorted([*PUBLIC, "BrokerFailed", "Cluster", "__version__"])


def test_each_public_name_is_there_and_the_same_in_both_places() -> None:
    for name in PUBLIC:
        assert getattr(everlog, name) is getattr(client, name), name


def test_the_asyncio_face_has_the_same_clients() -> None:
    assert sorted(aio.__all__) == ["Admin", "Consumer", "DeadLetters", "Producer"]


FOR_THE_OTHER_FACE = {"Producer": {"open_topic"}, "Consumer": {"take_in"}}
"""What the blocking clients call on the loop, and users do not."""

OF_OTHER_TYPES = {"DeadLetters.__init__", "DeadLetters.process", "DeadLetters.run", "Producer.transaction"}
"""What these take or give is of the one face or the other: clients, handlers, a `with` block."""


def calls(face: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(call)
        for name, call in inspect.getmembers(face, inspect.isfunction)
        if name == "__init__" or not name.startswith("_")
    }


@pytest.mark.parametrize("name", aio.__all__)
def test_both_faces_of_a_client_have_the_same_calls(name: str) -> None:
    blocking, on_a_loop = calls(getattr(everlog, name)), calls(getattr(aio, name))

    assert on_a_loop.keys() - blocking.keys() == FOR_THE_OTHER_FACE.get(name, set())
    assert blocking.keys() <= on_a_loop.keys()
    for call, signature in blocking.items():
        other = on_a_loop[call].parameters
        assert list(signature.parameters) == list(other), call
        for parameter in signature.parameters.values():
            same = other[parameter.name]
            assert (parameter.kind, parameter.default) == (same.kind, same.default), f"{call}({parameter})"
        if f"{name}.{call}" not in OF_OTHER_TYPES:
            assert signature == on_a_loop[call], call


def test_every_error_of_the_clients_is_an_everlog_error() -> None:
    errors = [found for name in everlog.__all__ if isinstance(found := getattr(everlog, name), type)]
    assert all(issubclass(found, everlog.EverlogError) for found in errors if issubclass(found, Exception))


def test_importing_everlog_loads_none_of_its_rooms() -> None:
    code = "import sys, everlog; print([name for name in sys.modules if name.startswith('everlog.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_modules_need_no_import_of_their_own() -> None:
    code = "import everlog; print(everlog.aio.Producer.__module__, everlog.admin.NewTopic.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["everlog.client.aio.producer", "NewTopic"]
