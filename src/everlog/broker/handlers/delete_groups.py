"""DeleteGroups, versions 0 to 3.

2 is flexible, 3 says in words what was wrong.
"""

from functools import partial
from typing import TYPE_CHECKING

from everlog.broker.coordinator_errors import coordinator_error
from everlog.broker.exchange import Exchange
from everlog.broker.gather import gather
from everlog.model.errors import Refused, StorageError
from everlog.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: DeleteGroupsRequest, exchange: Exchange) -> None:
    """Remove each empty group with its offsets, whichever protocol it speaks."""
    names = list(dict.fromkeys(request.groups_names))
    jobs = [partial(_delete, broker, name) for name in names]
    gather(jobs, lambda results: exchange.answer(DeleteGroupsResponse(results=results)))


def _delete(broker: "Broker", group_id: str, answered: "Callable[[DeletableGroupResult], None]") -> None:
    def done(reply: Refused | StorageError | None) -> None:
        if reply is None:
            answered(DeletableGroupResult(group_id=group_id))
        else:
            code = coordinator_error(reply)
            answered(DeletableGroupResult(group_id=group_id, error_code=code, error_message=str(reply)))

    try:
        shard = broker.coordinators.group_shard(group_id)
    except Refused as refused:
        done(refused)
        return
    shard.offsets.delete_group(group_id, done)
