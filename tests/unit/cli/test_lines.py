"""Lines as they arrive on a pipe."""

import os

import pytest

from everlog.cli import lines
from everlog.cli.lines import lines_from
from everlog.model.errors import ConfigError


def piped(*chunks: bytes) -> list[bytes]:
    """All lines of a pipe into which the chunks were written one by one."""
    found: list[bytes] = []
    read_end, write_end = os.pipe()
    try:
        for chunk in chunks:
            os.write(write_end, chunk)
        os.close(write_end)
        for lot, _quiet in lines_from(read_end):
            found += lot
    finally:
        os.close(read_end)
    return found


def test_lines_may_be_spread_over_chunks_and_the_last_needs_no_end() -> None:
    assert piped(b"one\ntw", b"o\n\nthree") == [b"one", b"two", b"", b"three"]


def test_a_carriage_return_belongs_to_the_line_end() -> None:
    assert piped(b"one\r\ntwo\r\n") == [b"one", b"two"]


def test_nothing_in_is_nothing_out() -> None:
    assert piped(b"") == []


def test_a_pause_of_the_source_is_told_so_that_nothing_waits() -> None:
    read_end, write_end = os.pipe()
    try:
        os.write(write_end, b"one\n")
        source = lines_from(read_end)
        assert next(source) == ([b"one"], True)
        os.write(write_end, b"two\nthr")
        assert next(source) == ([b"two"], True)
        os.close(write_end)
        assert next(source) == ([b"thr"], True)
    finally:
        os.close(read_end)


def test_a_stream_without_line_ends_is_refused_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10)

    with pytest.raises(ConfigError, match="more than 10 bytes"):
        piped(b"x" * 11)
