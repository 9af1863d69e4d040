from everlog.ports.files import Buffer

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

def can_fold() -> bool:
    """Whether this processor has what `crc32c` needs."""

def crc32c(data: Buffer, checksum: int = 0, /) -> int:
    """The checksum of the data, or of what `checksum` is of with the data behind it."""
