"""Regular expressions from clients, matched in time that is linear in the text: RE2's, not Python's.

A pattern that backtracks would hold up everybody: one loop serves all.
"""

from collections.abc import Callable

from everlog.model.errors import ErrorCode, Refused

MAX_PATTERN_BYTES = 4096
_MAX_MEMORY_BYTES = 1 << 20


def whole_matcher(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a whole text matches; INVALID_REGULAR_EXPRESSION if that cannot be told."""
    import re2  # type: ignore[import-untyped]  # It has no stubs; imported late, as few brokers need it.

    size = len(pattern.encode())
    if size > MAX_PATTERN_BYTES:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the pattern has {size} bytes, at most {MAX_PATTERN_BYTES} are allowed",
        )
    options = re2.Options()
    options.max_mem = _MAX_MEMORY_BYTES
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as problem:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"the pattern {pattern!r} cannot be used: {problem}"
        ) from problem

    def matches(text: str) -> bool:
        return compiled.fullmatch(text) is not None

    return matches
