"""One fuzz target in a process of its own, for `tests.fuzz.run`: `python -m tests.fuzz.child TARGET ARGS…`.

The arguments behind the target's name are libFuzzer's. Our code is instrumented for coverage as it is
imported, and so are the decoders that it makes for itself. An address-space limit turns an allocation
beyond all measure into a MemoryError, which is a find.
"""

import resource
import sys
from importlib import import_module
from types import FunctionType
from typing import Any

ADDRESS_SPACE_BYTES = 2 << 30

atheris: Any = import_module("atheris")  # It has no types.

with atheris.instrument_imports(include=["everlog"]):
    from everlog.wire.source import Source
    from tests.fuzz.targets import TARGETS

_make_function = Source.function


def _instrumented(source: Source, title: str) -> tuple[FunctionType, tuple[str, ...]]:
    function, fields = _make_function(source, title)
    if title.startswith("decode"):
        # Encoders only get what was decoded before, so nothing new is to be seen in them.
        atheris.instrument_func(function)
    return function, fields


def main() -> None:
    """Fuzz until libFuzzer's limits are reached; an exception that leaves the target ends the process."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    setattr(Source, "function", _instrumented)  # noqa: B010 - a type checker would rightly ask why
    target = TARGETS[sys.argv[1]]
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
