"""The tree of a client's exceptions: drawn completely, and each says whether a retry may help."""

import copy
import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Iterator
from itertools import chain

import pytest

import everlog
import everlog.client
import everlog.embedded
from everlog.client.core import errors
from everlog.client.core.consumer.errors import DamagedBatch, Woken
from everlog.client.core.errors import (
    AuthenticationFailed,
    Closed,
    TimedOut,
    TlsFailed,
    Unreachable,
    Unsendable,
    UnsendableType,
    Unsupported,
    refusal,
)
from everlog.embedded.brokers import BrokerFailed
from everlog.model.errors import (
    ConfigError,
    CorruptDataError,
    ErrorCode,
    EverlogError,
    ProtocolError,
    Refused,
)
from everlog.model.topics import TopicPartition


def of_the_client() -> Iterator[type[EverlogError]]:
    """The exception classes that modules of the client and of `everlog.Cluster` define or have from model."""
    modules = chain(
        pkgutil.walk_packages(everlog.client.__path__, "everlog.client."),
        pkgutil.walk_packages(everlog.embedded.__path__, "everlog.embedded."),
    )
    for module in modules:
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(found, EverlogError) and found.__module__ in (module.name, EverlogError.__module__):
                yield found


@pytest.mark.parametrize(
    ("kind", "retriable"),
    [
        (Unreachable, True),
        (TimedOut, True),
        (Unsupported, False),
        (Closed, False),
        (AuthenticationFailed, False),
        (TlsFailed, False),
        (ProtocolError, False),
        (ConfigError, False),
        (BrokerFailed, False),
    ],
)
def test_each_says_whether_a_retry_may_help(kind: type[EverlogError], retriable: bool) -> None:
    assert kind("why").retriable is retriable


@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_refusal_is_retriable_if_its_code_is(code: ErrorCode) -> None:
    assert refusal(code, None, "it").retriable is code.retriable


def test_the_tree_is_drawn_completely_and_as_it_is() -> None:
    drawn = _drawn(errors.__doc__ or "")

    for kind in set(of_the_client()) - {EverlogError}:
        assert kind.__name__ in drawn, f"{kind.__name__} is missing in the tree of {errors.__name__}"
        parent = kind.__mro__[1].__name__
        assert drawn[kind.__name__] == parent, f"{kind.__name__} is drawn under {drawn[kind.__name__]}"


def test_every_exception_that_is_drawn_can_be_caught_by_its_public_name() -> None:
    drawn = _drawn(errors.__doc__ or "")

    assert {"ProtocolError", "CorruptDataError", "DamagedBatch"} <= drawn.keys()
    assert set(drawn) <= set(everlog.__all__)


def test_every_exception_of_the_client_is_one_of_ours_and_has_a_flag_for_retries() -> None:
    kinds = list(of_the_client())

    assert {Unreachable, Unsendable, UnsendableType, Woken, BrokerFailed, CorruptDataError} <= set(kinds)
    for kind in kinds:
        assert isinstance(kind.retriable, bool), kind
        assert inspect.getdoc(kind), kind


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("gone"),
        AuthenticationFailed("no", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        TlsFailed("no"),
        Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "elsewhere"),
        UnsendableType(ErrorCode.INVALID_RECORD, "a number"),
        DamagedBatch("its checksum does not hold", TopicPartition("orders", 0), 7),
    ],
    ids=repr,
)
def test_an_error_survives_the_way_to_another_process(error: EverlogError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
        assert twin.retriable is error.retriable


def _drawn(text: str) -> dict[str, str]:
    """Each name in a drawing of a tree, and the name above it."""
    parents: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in text[text.index("EverlogError") :].splitlines():
        found = re.match(r"([│├└─ ]*)([A-Z]\w+)\b", line)
        if found is None or (not found[1] and path):
            continue
        depth = len(found[1])
        while path and path[-1][0] >= depth:
            path.pop()
        if path:
            parents[found[2]] = path[-1][1]
        path.append((depth, found[2]))
    return parents
