"""Patterns that stand for topics, matched in time linear in the name (KIP-848).

A pattern comes from any client that may join a group, and Python's own `re` can be made to run for years
with a short one. RE2, whose syntax KIP-848 names, cannot. Without its package, patterns are refused.
"""

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

from everlog.model.errors import ErrorCode, Refused

try:
    # The package has no types.
    re2: Any = import_module("re2")
except ImportError:
    re2 = None

MAX_PATTERN_LENGTH = 32 * 1024


class Pattern(Protocol):
    """A pattern that was understood."""

    def fullmatch(self, text: str) -> object | None:
        """Something if all of the text matches."""
        ...


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """Read a pattern; Refused with INVALID_REGULAR_EXPRESSION if it is none."""
    if re2 is None:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "this broker cannot match patterns: the Python package google-re2 is not installed",
        )
    if len(text) > MAX_PATTERN_LENGTH:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the pattern has {len(text)} characters, at most {MAX_PATTERN_LENGTH} are allowed",
        )
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        pattern: Pattern = re2.compile(text, options)
    except re2.error as error:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the pattern {text[:200]!r} is not of RE2's syntax: {_text(error.args[0])}",
        ) from None
    return pattern


def matching(text: str, names: Iterable[str]) -> frozenset[str]:
    """The names that a pattern matches as a whole; Refused if it is none."""
    pattern = compile_pattern(text)
    return frozenset(name for name in names if pattern.fullmatch(name) is not None)


def _text(said: object) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
