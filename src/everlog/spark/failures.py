"""What Spark's users see when something of ours goes wrong: one line, and no stack of Python."""

import os
from collections.abc import Generator
from contextlib import contextmanager

from everlog.model.errors import EverlogError


@contextmanager
def told_in_one_line() -> Generator[None]:
    """Have Spark show an EverlogError as its type and message; other errors keep their stack.

    Spark's Python processes print the stack of whatever ends them unless this variable is set. They do end
    with it, so that no later error of somebody else's is cut short.
    """
    try:
        yield
    except EverlogError as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise error from None
