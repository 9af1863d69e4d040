from everlog.ports.files import Buffer

def read_run(
    data: Buffer, at: int, end: int, /
) -> tuple[int, int, int, str | bytes, int, tuple[int, ...], tuple[tuple[int, int], ...]] | None:
    """Return a `ProduceRun` (produce_run.py); None if no run begins there."""

def write_run_answers(
    topic: str | bytes,
    partition: int,
    correlation_ids: tuple[int, ...],
    base_offsets: list[int],
    start_offset: int,
    /,
) -> bytes:
    """Return the answers of requests that succeeded; the topic is a name or an id."""
