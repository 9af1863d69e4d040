"""The memory that benchmarks run on."""

from bench.memory import SentMemory

_BLOCK = 2 << 20


def test_sockets_hold_a_piece_of_each_block_and_are_closed_in_the_end() -> None:
    memory = SentMemory(3 * _BLOCK)
    pairs = memory.pairs
    assert len(pairs) == 3
    for _, receiver in pairs:
        receiver.setblocking(False)
        held = receiver.recv(2 * _BLOCK)
        assert 0 < len(held) <= 64 * 1024

    memory.close()

    assert all(end.fileno() == -1 for pair in pairs for end in pair)
