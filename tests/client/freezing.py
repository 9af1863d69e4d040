"""Freezing a broker, and the limits of calls that are made of one."""

import inspect
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from everlog import EverlogError
from tests.conformance.target import Target

API_MS = 400
REQUEST_MS = 250
DELIVERY_MS = 500
LIMIT_S = 5.0
"""Beyond all time-outs together, and far below the defaults of any of them."""
GIVE_UP_S = 60.0

Place = tuple[str, int]


@contextmanager
def frozen(target: Target) -> Generator[None]:
    target.pause()
    try:
        yield
    finally:
        target.resume()


def ends(target: Target, call: Callable[[], object]) -> EverlogError | None:
    """Freeze the broker and call; returns what was raised, and fails if that took too long."""
    with ThreadPoolExecutor(1) as one, frozen(target):
        began = time.monotonic()
        error = one.submit(call).exception(GIVE_UP_S)
        took = time.monotonic() - began
    assert took < LIMIT_S, f"{took:.1f} s"
    assert error is None or isinstance(error, EverlogError), repr(error)
    return error


def calls_of(kind: type) -> set[str]:
    """What can be called, but for closing it."""
    return {name for name, it in vars_of(kind).items() if inspect.isfunction(it)} - {"close"}


def vars_of(kind: type) -> dict[str, object]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
