"""Patience with Spark on a busy machine: a Python that it starts has ten seconds, whatever else goes on."""

from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import StreamingQueryException

Result = TypeVar("Result")

SLOW_MACHINE = "Python worker failed to connect back"


def patiently(attempt: Callable[[], Result]) -> Result:
    """Start a query, again if the machine was too slow for Spark: nothing was read then."""
    for _ in range(5):
        try:
            return attempt()
        except StreamingQueryException as error:
            if SLOW_MACHINE not in str(error):
                raise
    return attempt()
