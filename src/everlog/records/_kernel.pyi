from everlog.ports.files import Buffer

def check_run(
    data: Buffer, spans: tuple[tuple[int, int], ...], /
) -> tuple[tuple[tuple[int, int, int, int, int, int], ...], bool, int, int, int, int, int, int, int] | None:
    """Return the headers and their sums; None if a batch is bad or not of the plain kind."""

def stamp_run(
    data: Buffer, spans: tuple[tuple[int, int], ...], base_offset: int, leader_epoch: int, /
) -> int:
    """Give each batch its base offset and epoch; return the offset behind the last."""

def skim(records: Buffer, count: int, base_timestamp: int, /) -> tuple[int, int, bool, int, int]:
    """Return max timestamp, its offset delta, null keys; then the first bad record and where, or -1s."""

def add_keys(
    table: bytearray,
    seed: bytes,
    records: Buffer,
    count: int,
    base_offset: int,
    last_delta: int,
    room: int,
    /,
) -> tuple[int, int, bool]:
    """Return how many records were taken in, how many keys were new, and False if the next record is bad."""

def sift_records(
    table: bytearray,
    seed: bytes,
    records: Buffer,
    count: int,
    base_offset: int,
    last_delta: int,
    latest: int,
    drop_tombstones: bool,
    shift: int,
    /,
) -> tuple[int, int, int, bytes | None, int]:
    """Return records kept, tombstones in them, largest timestamp delta, their bytes if changed, a bad one."""
