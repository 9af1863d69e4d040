"""ConsumerGroupDescribe, versions 0 and 1: groups of the consumer protocol (KIP-848).

1 tells which protocol each member speaks. A group of another type is not there as far as this goes; clients
then ask with DescribeGroups.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from everlog.broker.access import group_operations
from everlog.broker.coordinator_errors import coordinator_error
from everlog.broker.exchange import Exchange
from everlog.broker.gather import gather
from everlog.coordinator.machine import Decision
from everlog.model.errors import Refused, StorageError
from everlog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: ConsumerGroupDescribeRequest, exchange: Exchange) -> None:
    """Describe each group on its own, and once however often it is named."""
    operations = group_operations(asked=request.include_authorized_operations)

    def done(described: list[DescribedGroup]) -> None:
        for one in described:
            if not one.error_code:
                one.authorized_operations = operations
        exchange.answer(ConsumerGroupDescribeResponse(groups=described))

    gather([partial(_describe, broker, group_id) for group_id in dict.fromkeys(request.group_ids)], done)


def _describe(broker: "Broker", group_id: str, answered: Callable[[DescribedGroup], None]) -> None:
    def done(reply: DescribedGroup | Refused | StorageError) -> None:
        if isinstance(reply, DescribedGroup):
            answered(reply)
        else:
            code = coordinator_error(reply)
            answered(DescribedGroup(group_id=group_id, error_code=code, error_message=str(reply)))

    try:
        shard = broker.coordinators.group_shard(group_id)
    except Refused as refused:
        done(refused)
        return
    shard.machine.run(lambda: Decision((), shard.consumer.describe(group_id)), done)
