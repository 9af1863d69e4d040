"""Answers come whole and in order, however the stream is cut into reads; what is no size is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.client.core.answer_frames import MAX_ANSWER_BYTES, SCRATCH_BYTES, AnswerFrames
from everlog.model.errors import ProtocolError

SIZES = st.lists(st.integers(4, 300) | st.integers(SCRATCH_BYTES - 10, SCRATCH_BYTES + 10), max_size=5)
CUTS = st.lists(st.integers(1, 9) | st.integers(1_000, 100_000), min_size=1, max_size=20)


def stream_of(sizes: list[int]) -> tuple[bytes, list[bytes]]:
    """Answers of these sizes, together and one by one."""
    answers = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    return b"".join(len(answer).to_bytes(4, "big") + answer for answer in answers), answers


def feed(frames: AnswerFrames, stream: bytes, cuts: list[int]) -> list[bytes]:
    """Read a stream as a socket would, in pieces of these sizes in turn."""
    found: list[bytes] = []
    at = turn = 0
    while at < len(stream):
        room = frames.buffer()
        assert len(room) > 0
        count = min(cuts[turn % len(cuts)], len(room), len(stream) - at)
        room[:count] = stream[at : at + count]
        found += [bytes(frame) for frame in frames.filled(count)]
        at += count
        turn += 1
    return found


@settings(max_examples=60, deadline=None)
@given(SIZES, CUTS)
def test_answers_come_whole_and_in_order(sizes: list[int], cuts: list[int]) -> None:
    stream, answers = stream_of(sizes)

    assert feed(AnswerFrames("test"), stream, cuts) == answers


@settings(max_examples=60, deadline=None)
@given(SIZES, st.integers(-(2**31), 3) | st.integers(MAX_ANSWER_BYTES + 1, 2**31 - 1), CUTS)
def test_what_is_no_size_is_refused(sizes: list[int], wrong: int, cuts: list[int]) -> None:
    frames = AnswerFrames("test")
    frames.max_bytes = MAX_ANSWER_BYTES
    stream, _ = stream_of(sizes)

    with pytest.raises(ProtocolError, match="broker test"):
        feed(frames, stream + wrong.to_bytes(4, "big", signed=True), cuts)
