"""What an interrupted change left in a partition's directory, brought to one side of that change."""

from everlog.log import aborted_index, scan
from everlog.log.checkpoint import TEMPORARY_SUFFIX
from everlog.log.indexes import FRESH_SUFFIX
from everlog.log.segment import LOG_SUFFIX, SNAPSHOT_SUFFIX, SUFFIXES, file_name
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset
from everlog.ports.files import Files

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_DIGITS = 20


def clear_leftovers(files: Files, path: str) -> list[Offset]:
    """Tidy a partition's directory and return the base offsets of its segments, in order.

    Files on their way out go. A rewritten segment is `.cleaned` while it is made and `.swap` once it is
    complete: from then on it stands for all segments in its range, and is put in their place. A `.swap`
    beside a `.cleaned` of lower base belongs to a rewrite that was not complete, and goes with it.
    """
    names = files.names(path)
    _drop_incomplete_swaps(files, path, names)
    for name in names:
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX, FRESH_SUFFIX)):
            files.unlink(f"{path}/{name}")
    _finish_swaps(files, path)
    return _whole_segments(files, path)


def _drop_incomplete_swaps(files: Files, path: str, names: list[str]) -> None:
    cleaned = [base for name in names if (base := _base_of(name, CLEANED_SUFFIX)) is not None]
    logs = {name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)}
    dropped = False
    for name in names:
        base = _base_of(name, SWAP_SUFFIX)
        if base is None:
            continue
        # An index without its log may be that of a swap that was called off.
        if (cleaned and base >= min(cleaned)) or file_name(base, LOG_SUFFIX + SWAP_SUFFIX) not in logs:
            files.unlink(f"{path}/{name}")
            dropped = True
    if dropped and cleaned:
        # Before the `.cleaned` files go, by which the next start would know that these are incomplete.
        files.sync_dir(path)


def segment_base(name: str, suffix: str = LOG_SUFFIX) -> Offset | None:
    """The base offset in the name of a segment's file; None if it is no such name."""
    digits, found = name[:_DIGITS], name[_DIGITS:]
    return Offset(int(digits)) if found == suffix and digits.isdecimal() and len(digits) == _DIGITS else None


def _base_of(name: str, last_suffix: str) -> Offset | None:
    """The base offset in a name such as `00000000000000000007.log.swap`; None if it ends otherwise."""
    if not name.endswith(last_suffix) or not name[:_DIGITS].isdecimal():
        return None
    return Offset(int(name[:_DIGITS]))


def _finish_swaps(files: Files, path: str) -> None:
    swaps = [name for name in files.names(path) if name.endswith(SWAP_SUFFIX)]
    logs = [name for name in swaps if segment_base(name.removesuffix(SWAP_SUFFIX)) is not None]
    for name in logs:
        base = segment_base(name.removesuffix(SWAP_SUFFIX))
        assert base is not None
        end = _end_offset(files, f"{path}/{name}", base)
        for old in files.names(path):
            replaced = segment_base(old)
            if replaced is not None and base < replaced < end:
                _remove_segment(files, path, replaced)
        # The other indexes of the same base are replaced below, or are the new ones already.
        txn_index = f"{path}/{file_name(base, aborted_index.SUFFIX)}"
        if files.exists(txn_index):
            files.unlink(txn_index)
    for name in swaps:
        if name not in logs:
            files.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
    if logs:
        # The old segments must be gone for good before the new log has a name like any other.
        files.sync_dir(path)
    for name in logs:
        files.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
    if logs:
        files.sync_dir(path)


def _end_offset(files: Files, log_path: str, base: Offset) -> int:
    file = files.open(log_path)
    end = int(base)
    try:
        for header in scan.headers(file, 0, file.size):
            end = header.last_offset + 1
    except CorruptDataError:
        pass  # Recovery will cut it there; it stands for what it still has.
    finally:
        file.close()
    return end


def _remove_segment(files: Files, path: str, base: Offset) -> None:
    for suffix in SUFFIXES:
        # A snapshot is the state at an offset, whichever files hold the batches.
        if suffix != SNAPSHOT_SUFFIX and files.exists(f"{path}/{file_name(base, suffix)}"):
            files.unlink(f"{path}/{file_name(base, suffix)}")


def _whole_segments(files: Files, path: str) -> list[Offset]:
    names = files.names(path)
    bases = [base for name in names if (base := segment_base(name)) is not None]
    known = set(bases)
    for name in names:
        for suffix in SUFFIXES[1:-1]:
            base = segment_base(name, suffix)
            if base is not None and base not in known:
                files.unlink(f"{path}/{name}")  # An index without its log.
    return bases
