"""The tree of a client's exceptions: drawn completely, and each says whether a retry may help."""

import copy
import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Iterator

import pytest

import everlog.client
from everlog.client.core import errors
from everlog.client.core.errors import (
    AuthenticationFailed,
    Closed,
    TimedOut,
    TlsFailed,
    Unreachable,
    Unsupported,
    refusal,
)
from everlog.model.errors import ConfigError, ErrorCode, EverlogError, ProtocolError, Refused


def of_the_client() -> Iterator[type[EverlogError]]:
    """Every exception class that a module of the client defines."""
    for module in pkgutil.walk_packages(everlog.client.__path__, "everlog.client."):
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(found, EverlogError) and found.__module__ == module.name:
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
    ],
)
def test_each_says_whether_a_retry_may_help(kind: type[EverlogError], retriable: bool) -> None:
    assert kind("why").retriable is retriable


@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_refusal_is_retriable_if_its_code_is(code: ErrorCode) -> None:
    assert refusal(code, None, "it").retriable is code.retriable


def test_the_tree_is_drawn_completely_and_as_it_is() -> None:
    drawn = _drawn(errors.__doc__ or "")

    for kind in of_the_client():
        assert kind.__name__ in drawn, f"{kind.__name__} is missing in the tree of {errors.__name__}"
        parent = kind.__mro__[1].__name__
        assert drawn[kind.__name__] == parent, f"{kind.__name__} is drawn under {drawn[kind.__name__]}"


def test_every_exception_of_the_client_is_one_of_ours_and_has_a_flag_for_retries() -> None:
    kinds = list(of_the_client())

    assert len(kinds) >= 6
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
