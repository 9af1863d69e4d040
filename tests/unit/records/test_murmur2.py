"""The hash of keys: what Kafka's own clients give, and that the twins agree (P1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.records.murmur2 import murmur2, murmur2_plainly
from everlog.records.rows import rows_are_compiled

# From Kafka's own tests of its hash, as signed numbers.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", KNOWN)
def test_the_hash_is_that_of_kafkas_clients(key: bytes) -> None:
    assert murmur2(key) == murmur2_plainly(key) == KNOWN[key] & 0xFFFFFFFF


@pytest.mark.skipif(not rows_are_compiled(), reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set")
@given(st.binary(max_size=200))
def test_the_twins_agree(key: bytes) -> None:
    assert murmur2(key) == murmur2_plainly(key)


@pytest.mark.parametrize("key", ["text", 5, None])
def test_only_bytes_have_a_hash(key: object) -> None:
    with pytest.raises(TypeError):
        murmur2(key)  # type: ignore[arg-type]
