"""Flows on Structured Streaming: functions that a project's `streams/*.py` declare with `@stream`."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from everlog.model.errors import ConfigError

DEFAULT_TRIGGER = "1 second"

# Spark's DataStreamWriter. pyspark is an extra, and typed in part.
Writer = Any
Declared = Callable[[], Writer]


@dataclass(frozen=True, slots=True)
class Stream:
    """One flow: its name, how often it runs when it runs for ever, and the function that declares it."""

    name: str
    trigger: str
    declare: Declared


_declared: dict[str, Stream] = {}


@overload
def stream(function: Declared) -> Declared: ...
@overload
def stream(*, name: str | None = None, trigger: str = DEFAULT_TRIGGER) -> Callable[[Declared], Declared]: ...
def stream(
    function: Declared | None = None, *, name: str | None = None, trigger: str = DEFAULT_TRIGGER
) -> Declared | Callable[[Declared], Declared]:
    """Declare a flow that `everlog pipeline run` starts: the function returns a writer that is not started.

    The run gives it its query name, its checkpoint and its trigger. `spark` is a global of the file.

    ```python
    from everlog.pipelines import stream

    @stream(trigger="500 milliseconds")
    def copied():
        at = {"kafka.bootstrap.servers": spark.conf.get("everlog.bootstrap.servers")}
        orders = spark.readStream.format("everlog").options(**at, subscribe="orders").load()
        return orders.writeStream.format("everlog").options(**at, topic="orders-copy")
    ```
    """

    def declare(declared: Declared) -> Declared:
        chosen = name or declared.__name__
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", chosen):
            # It becomes a directory of the storage.
            raise ConfigError(f"stream name {chosen!r} will not do: expected letters, digits, '-', '_', '.'")
        if chosen in _declared:
            raise ConfigError(f"stream {chosen!r} is declared twice: give one another name")
        _declared[chosen] = Stream(chosen, trigger, declared)
        return declared

    return declare if function is None else declare(function)


def take_declared() -> list[Stream]:
    """The streams that were declared since the last call, in their order."""
    taken = list(_declared.values())
    _declared.clear()
    return taken
