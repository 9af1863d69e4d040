"""The disks that keep the promises of `everlog.ports.files`: a fake passes the tests of its port."""

from pathlib import Path

import pytest

from everlog.edge.disk import RealFiles
from everlog.ports.files import Files
from everlog.sim.disk import SimFiles


@pytest.fixture(params=["real", "simulated"])
def files(request: pytest.FixtureRequest) -> Files:
    # Two descriptors for the whole suite: every test also shows that it matters to nobody.
    return RealFiles(max_open_files=2) if request.param == "real" else SimFiles()


@pytest.fixture
def home(files: Files, tmp_path: Path) -> str:
    """A directory that is there and empty."""
    path = str(tmp_path)
    files.make_dir(path)
    return path
