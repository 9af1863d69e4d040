"""Names that the sink has in a cluster: transactional ids, the topic of decisions, groups."""

import uuid
from urllib.parse import quote

DECISIONS = "__everlog_decisions"
"""The compacted topic that holds the last decision of each query."""
_PREFIX = "everlog-spark"


def query_of_write(write_id: str) -> str:
    """What stands in the place of a query's id for a batch write of that name."""
    return f"write-{write_id}"


def transactional_id_prefix(query: str) -> str:
    """How the transactional ids of all tasks of a query begin, and no other's."""
    # A query's name may have dots when a user chose it; another must not begin with all of it.
    return f"{_PREFIX}.{quote(query, safe='').replace('.', '%2E')}."


def new_task_id(query: str) -> str:
    """A transactional id for tasks of a query that nobody has had.

    It belongs to one worker process and one run of the query. Nobody else ever takes it over, so that no
    attempt that comes late can abort what another has finished.
    """
    return f"{transactional_id_prefix(query)}{uuid.uuid4().hex}"


def decider_id(query: str) -> str:
    """The transactional id under which the driver of a query decides: one at a time, the last who came."""
    return f"{_PREFIX}-decides.{query}"


def pointer_group(query: str) -> str:
    """The group whose committed offset in `DECISIONS` is the place of the query's last decision."""
    return f"{_PREFIX}.{query}"
