"""What a user reads of a failure on Spark."""

import traceback

from everlog.spark.errors import explain

STACKS = ("Traceback", '\n  File "', "\tat ", "at org.apache.")
"""What lines of a stack have, of Python's and of Java's."""


def without_stack(error: BaseException) -> str:
    """The whole text of an error; AssertionError if there is a line of a stack in it."""
    text = str(error)
    assert not [sign for sign in STACKS if sign in text], text
    return text


def first_line_of_a_stream(error: BaseException) -> str:
    """What a user reads first of a query that failed, and all there is of the failure.

    Spark puts its own report of the query below, which has plans and offsets, no stack and no other error.
    """
    text = without_stack(error)
    first, mark, report = text.partition("\n SQLSTATE: ")
    assert mark, text
    assert "\n" not in first, text
    assert "\n=== Streaming Query ===\n" in report, text
    assert not [word for word in ("everlog.", "Error: ", "Exception: ") if word in report], text
    # Nor does what Python prints of it have one of Java, or other errors that led to it.
    printed = "".join(traceback.format_exception(error))
    assert not [word for word in ("\tat ", "\nDuring handling", "\nThe above exception") if word in printed]
    return first


def in_one_line(error: BaseException) -> str:
    """The one line that `everlog.spark.errors.explain` makes of an error that may have more."""
    said = explain(error)
    assert said is not None, error
    assert not [sign for sign in (*STACKS, "\n") if sign in said], said
    return said
