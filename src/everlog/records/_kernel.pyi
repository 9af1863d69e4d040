from everlog.ports.files import Buffer

def skim(records: Buffer, count: int, base_timestamp: int, /) -> tuple[int, int, bool, int, int]:
    """Return max timestamp, its offset delta, null keys; then the first bad record and where, or -1s."""
