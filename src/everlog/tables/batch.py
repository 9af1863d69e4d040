"""One batch from staged rows to a commit: dead letters first, then the table."""

from collections.abc import Sequence

from everlog.tables.letters import LetterBox
from everlog.tables.offsets import OffsetRanges
from everlog.tables.results import Already, Committed
from everlog.tables.staging import Staged
from everlog.tables.table import Table


def commit_batch(
    table: Table,
    writer: str,
    batch_id: int,
    staged: Sequence[Staged],
    offsets: OffsetRanges | None = None,
    letters: LetterBox | None = None,
    *,
    repeats: bool = True,
) -> Committed | Already:
    """Send the dead letters of a batch, then commit it; both once, whatever crashes and is done again.

    >>> staged = table.stage(records)                      # in tasks, on any machine
    >>> commit_batch(table, "query-1", 7, [staged])        # where the batch is decided

    Without `letters` a box is opened for this batch if it has bad records. `repeats` is for `Table.commit`.
    Raises BadRecords if there are some and the table has no dead-letter topic: nothing is committed then.
    """
    last = table.last_batch(writer)
    if (last is None or batch_id > last) and any(each.bad for each in staged):
        seen = OffsetRanges()
        for each in staged:
            seen = seen.hull(each.seen)
        ranges = seen if offsets is None else offsets
        bad = table.bad_records(staged)
        batch = None if repeats else batch_id
        if letters is not None:
            letters.send(bad, ranges, batch)
        else:
            with LetterBox(table.spec, writer) as box:
                box.send(bad, ranges, batch)
    return table.commit(writer, batch_id, staged, offsets, repeats=repeats)
