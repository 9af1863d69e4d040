"""What a user reads of a failure on Spark."""

from everlog.spark.errors import explain

STACKS = ("Traceback", '\n  File "', "\tat ", "at org.apache.")
"""What lines of a stack have, of Python's and of Java's."""


def without_stack(error: BaseException) -> str:
    """The whole text of an error; AssertionError if there is a line of a stack in it."""
    text = str(error)
    assert not [sign for sign in STACKS if sign in text], text
    return text


def in_one_line(error: BaseException) -> str:
    """The one line that `everlog.spark.errors.explain` makes of an error that may have more."""
    said = explain(error)
    assert said is not None, error
    assert not [sign for sign in (*STACKS, "\n") if sign in said], said
    return said
