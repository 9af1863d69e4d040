"""The checksum itself: known values, any buffer and length, a front that is not paid for at start (L1)."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from everlog.records.crc import Checksum, crc32c, folding, packaged

KNOWN = [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)]


@pytest.fixture
def ours() -> Checksum:
    found = folding()
    if found is None:
        pytest.skip("no kernel is built, or the processor lacks vpclmulqdq: the package serves")
    return found


@pytest.mark.parametrize(("data", "checksum"), KNOWN)
def test_known_values_hold(data: bytes, checksum: int) -> None:
    for given in (data, bytearray(data), memoryview(data)):
        assert crc32c(given) == checksum


@pytest.mark.parametrize(("data", "checksum"), KNOWN)
def test_they_hold_for_the_package_too(data: bytes, checksum: int) -> None:
    assert packaged()(data) == checksum


def test_ours_is_the_packages_for_every_length_place_and_beginning(ours: Checksum) -> None:
    chance = random.Random(1)
    data, theirs = memoryview(chance.randbytes(300_000)), packaged()
    lengths = [*range(1100), *(chance.randrange(len(data) - 70) for _ in range(200))]
    for length in lengths:
        at = chance.randrange(70)
        piece, before = data[at : at + length], chance.getrandbits(32)
        assert ours(piece) == theirs(piece), (at, length)
        assert ours(piece, before) == theirs(piece, before), (at, length, before)


def test_ours_goes_on_where_a_piece_before_ended(ours: Checksum) -> None:
    data = random.Random(2).randbytes(5000)
    for cut in (0, 1, 255, 256, 511, 512, 513, 4999, 5000):
        assert ours(data[cut:], ours(data[:cut])) == packaged()(data), cut


def test_ours_refuses_what_is_no_data_or_no_checksum(ours: Checksum) -> None:
    for wrong in ((), ("text",), (b"x", -1), (b"x", 0, 0)):
        with pytest.raises((TypeError, OverflowError)):
            ours(*wrong)


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
