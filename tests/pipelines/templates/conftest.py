"""Templates run in the one session of Spark that all tests share, on a cluster that is theirs."""

from collections.abc import Generator

import pytest

import everlog
from tests.spark.conftest import spark

__all__ = ["cluster", "spark"]


@pytest.fixture
def cluster() -> Generator[everlog.Cluster]:
    """A cluster of the test's own: templates have the same names of topics."""
    with everlog.Cluster() as started:
        yield started
