"""Tables of each format on real files, and topics on the session's broker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog import Admin
from everlog.tables.spec import FORMATS, TableSpec
from tests.tables.builders import a_spec


@pytest.fixture(params=FORMATS)
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> TableSpec:
    """A table of orders in each format."""
    return a_spec(tmp_path, format=request.param)


@pytest.fixture
def new_topic(everlog_bootstrap: str, fresh_topic: Callable[[], str]) -> Callable[..., str]:
    """Makes a topic of a name of its own: `new_topic(3)`."""

    def make(partitions: int = 1, **configs: Any) -> str:
        name = fresh_topic()
        with Admin(everlog_bootstrap) as admin:
            admin.create_topic(name, partitions, configs={k.replace("_", "."): v for k, v in configs.items()})
        return name

    return make
