"""A Java for tests of Spark, found as our programs find it: the machine's, or that of the extra `java`."""

import pytest

from everlog.model.errors import ConfigError
from everlog.spark.java import Java, use_java


def require_java() -> Java:
    """Have Spark use a Java of 17 or newer; skips the test, with what to install, where there is none."""
    try:
        return use_java()
    except ConfigError as error:
        pytest.skip(str(error))
