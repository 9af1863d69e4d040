"""The checksum itself: known values, any buffer, and a front that is not paid for at start (L1)."""

import subprocess
import sys
from pathlib import Path

import pytest

from everlog.records.crc import crc32c

KNOWN = [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)]


@pytest.mark.parametrize(("data", "checksum"), KNOWN)
def test_known_values_hold(data: bytes, checksum: int) -> None:
    for given in (data, bytearray(data), memoryview(data)):
        assert crc32c(given) == checksum


def test_the_slow_front_of_the_package_is_not_loaded() -> None:
    source = Path(__file__).parents[3] / "src"
    found = subprocess.run(
        [sys.executable, "-c", "import sys, everlog.records.crc; print('importlib.metadata' in sys.modules)"],
        env={"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert found.stdout.strip() == "False"
