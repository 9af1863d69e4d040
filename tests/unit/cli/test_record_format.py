"""The formats of `consume`."""

import pytest

from everlog.cli.record_format import compile_format
from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition
from everlog.records.reader import Record

PLACE = TopicPartition("orders", 3)
RECORD = Record(42, 1_700_000_000_123, b"k", b"val\xff", (("a", b"1"), ("b", None)))
NULLS = Record(7, -1, None, None, ())


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (r"%v\n", b"val\xff\n"),
        (r"%t-%p@%o %k=%v", b"orders-3@42 k=val\xff"),
        (r"%T %D", b"1700000000123 2023-11-14T22:13:20.123Z"),
        (r"%h", b"a=1,b="),
        (r"%K/%V", b"1/4"),
        (r"100%%\t\\\x00\0", b"100%\t\\\0\0"),
        (r"%s", b"val\xff"),
        ("ü", "ü".encode()),
        ("", b""),
    ],
)
def test_fields_and_escapes_are_filled_in(form: str, expected: bytes) -> None:
    assert compile_format(form)(PLACE, RECORD) == expected


def test_nulls_print_as_nothing_and_have_size_minus_one() -> None:
    assert compile_format("%k|%v|%h|%K|%V|%T|%D")(PLACE, NULLS) == b"|||-1|-1|-1|-"


@pytest.mark.parametrize("form", ["%", "%q", "\\", r"\q", r"\x", r"\x1", r"\xzz"])
def test_an_unknown_field_or_escape_is_named(form: str) -> None:
    with pytest.raises(ConfigError, match="format"):
        compile_format(form)
