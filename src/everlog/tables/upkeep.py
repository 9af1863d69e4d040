"""Upkeep: few large files instead of many small ones, and nothing kept that nobody needs."""

import time
from collections import defaultdict
from datetime import timedelta

from everlog.tables import steps
from everlog.tables.errors import CommitContended
from everlog.tables.results import Compacted, Expired
from everlog.tables.staging import DataFile
from everlog.tables.store import Change, Store, View

ATTEMPTS = 30
TIDY_BATCHES = 20
"""After so many batches of a writer the table is tidied up if it needs it; a look costs a load."""
ORPHANS_AFTER = timedelta(days=1)


def small_files(view: View, target_bytes: int) -> list[list[DataFile]]:
    """Files that belong together in one, by partition; groups of one are left out."""
    groups: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = defaultdict(list)
    for file in view.files:
        if file.size_bytes < target_bytes // 2:
            groups[tuple(sorted(file.partition.items()))].append(file)
    return [files for _, files in sorted(groups.items(), key=lambda item: str(item[0])) if len(files) > 1]


def compact(store: Store, target_bytes: int) -> Compacted:
    """Rewrite small files and swap them for the new ones, if they still are the table's then.

    Writers that append meanwhile do not disturb it, nor it them: what was rewritten is good as long as none
    of the files was replaced. If one was, the rewriting begins again.
    """
    for _ in range(ATTEMPTS):
        view = store.load()
        groups = small_files(view, target_bytes)
        old = [file for files in groups for file in files]
        if not old:
            return Compacted(0, 0, 0)
        new: list[DataFile] = []
        for files in groups:
            new += store.write(view, (store.read(view, [file]) for file in files))
        steps.reached("upkeep-written")
        rows = sum(file.rows for file in new)
        while {file.path for file in old} <= {file.path for file in view.files}:
            change = Change("compact", view.state, add=new, remove=old)
            if store.swap(view, change) is not None:
                steps.reached("upkeep-made")
                return Compacted(len(old), len(new), rows)
            view = store.load()
        if {file.path for file in new} <= {file.path for file in view.files}:
            return Compacted(len(old), len(new), rows)
        for file in new:
            store.directory.remove(store.directory.relative(file.path))
    raise CommitContended(
        f"compaction: others replaced the small files {ATTEMPTS} times while it rewrote them"
    )


def expire(store: Store, older_than: timedelta, keep: int, orphans_after: timedelta | None) -> Expired:
    """Forget old commits, then remove files that no commit left needs.

    Files that a forgotten commit held go at once. Files that no commit ever held may belong to a batch on its
    way, and go when they are old enough. A crash in between leaves files, never a commit without its files.
    """
    now = time.time_ns() // 1_000_000
    before_ms = now - int(older_than.total_seconds() * 1000)
    grace = ORPHANS_AFTER if orphans_after is None else orphans_after
    orphan_ms = now - int(grace.total_seconds() * 1000)
    held = store.needed(0, 1 << 60)
    commits = store.forget(before_ms, keep)
    needed = store.needed(before_ms, keep)
    released = held - needed
    files = size = 0
    for found in list(store.directory.walk()):
        if found.path in needed or (found.path not in released and found.modified_ms > orphan_ms):
            continue
        steps.reached("upkeep-removing")
        store.directory.remove(found.path)
        files, size = files + 1, size + found.size_bytes
    return Expired(commits, files, size)
