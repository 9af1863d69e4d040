"""Buffers of large answers are used again, but never while anything points into them (C1, O5)."""

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.client.core.answer_frames import (
    HUGE_PAGE_BYTES,
    MAX_ANSWER_BYTES,
    SPARE_FROM_BYTES,
    SPARES_BYTES,
    AnswerFrames,
)


def answer(frames: AnswerFrames, content: bytes) -> memoryview:
    """Have one answer come in, and return it."""
    stream = len(content).to_bytes(4, "big") + content
    found: list[memoryview] = []
    while stream:
        room = frames.buffer()
        count = min(len(room), len(stream))
        room[:count] = stream[:count]
        stream = stream[count:]
        found += frames.filled(count)
    (frame,) = found
    return frame


def new_frames() -> AnswerFrames:
    frames = AnswerFrames("test")
    frames.max_bytes = MAX_ANSWER_BYTES
    return frames


def address(frame: memoryview) -> int:
    return id(frame.obj)


STEPS = st.lists(
    st.tuples(st.sampled_from([100, SPARE_FROM_BYTES, 100_000, 150_000]), st.booleans(), st.integers(0, 3)),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_what_somebody_has_a_view_of_stays_as_it_came(steps: list[tuple[int, bool, int]]) -> None:
    frames = new_frames()
    kept: list[tuple[memoryview, bytes]] = []
    for number, (size, keeps, drops) in enumerate(steps):
        content = bytes([number + 1]) * size
        frame = answer(frames, content)
        assert frame == content
        if keeps:
            kept.append((frame[size // 3 :], content[size // 3 :]))  # A batch within it, as it were.
        del frame
        del kept[:drops]
        assert all(view == content for view, content in kept)


@pytest.mark.parametrize("size", [100_000, HUGE_PAGE_BYTES, 5_000_000])
def test_a_buffer_is_used_again_once_nothing_points_into_it(size: int) -> None:
    frames = new_frames()
    first = answer(frames, bytes(size))
    part = first[5:9]
    used = address(first)
    del first
    second = answer(frames, b"x" * (size + 100))
    assert address(second) != used
    assert (bytes(second[-1:]), bytes(part)) == (b"x", bytes(4))
    del part

    third = answer(frames, bytes(size - 1000))
    assert (address(third), len(third)) == (used, size - 1000)


@pytest.mark.parametrize("size", [100_000, 5_000_000])
def test_a_buffer_that_arrow_has_is_not_used_again(size: int) -> None:
    arrow: Any = import_module("pyarrow")
    frames = new_frames()
    frame = answer(frames, b"a" * size)
    column = arrow.py_buffer(frame.obj)
    used = address(frame)
    del frame
    assert address(answer(frames, bytes(size))) != used
    assert column[:3].to_pybytes() == b"aaa"
    del column
    assert address(answer(frames, bytes(size))) == used


def test_buffers_that_have_become_too_small_make_room_for_larger_ones() -> None:
    frames = new_frames()
    small = [answer(frames, bytes(SPARES_BYTES // 10)) for _ in range(8)]
    del small
    large = answer(frames, bytes(SPARES_BYTES // 2))
    used = address(large)
    del large

    assert address(answer(frames, bytes(SPARES_BYTES // 2))) == used


def test_memory_is_kept_within_bounds_and_let_go_when_answers_are_small() -> None:
    frames = new_frames()
    held = [answer(frames, bytes(SPARES_BYTES // 3)) for _ in range(6)]
    kept = frames._spares  # pyright: ignore[reportPrivateUsage]
    assert len(kept) == 2
    assert sum(map(len, kept)) <= SPARES_BYTES
    del held

    answer(frames, b"small")
    assert kept == []
