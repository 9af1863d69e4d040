"""DescribeGroups, versions 0 to 6: groups of the classic protocol, and those that only have offsets.

3 tells what the client may do, 4 has static members, 5 is flexible, 6 answers GROUP_ID_NOT_FOUND for a group
that is not there, which before was shown as dead. A group of another type is not there as far as this goes.
"""

from functools import partial
from typing import TYPE_CHECKING

from everlog.broker.access import group_operations
from everlog.broker.coordinator_errors import coordinator_error
from everlog.broker.exchange import Exchange
from everlog.broker.gather import gather
from everlog.coordinator.group import group as groups
from everlog.coordinator.machine import Decision
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from everlog.broker.broker import Broker

_FIRST_WITH_NOT_FOUND = 6
_DEAD = "Dead"


def handle(broker: "Broker", request: DescribeGroupsRequest, exchange: Exchange) -> None:
    """Describe each group on its own, and once however often it is named."""
    operations = group_operations(asked=request.include_authorized_operations)
    jobs = [
        partial(_describe, broker, group_id, exchange.api_version)
        for group_id in dict.fromkeys(request.groups)
    ]

    def done(described: list[DescribedGroup]) -> None:
        for one in described:
            if not one.error_code:
                one.authorized_operations = operations
        exchange.answer(DescribeGroupsResponse(groups=described))

    gather(jobs, done)


def _describe(
    broker: "Broker", group_id: str, version: int, answered: "Callable[[DescribedGroup], None]"
) -> None:
    def done(reply: groups.DescribedGroup | Refused | StorageError | None) -> None:
        if isinstance(reply, Refused | StorageError):
            answered(DescribedGroup(group_id=group_id, error_code=coordinator_error(reply)))
        elif reply is None:
            answered(_not_there(group_id, version))
        else:
            answered(_shown(group_id, reply))

    try:
        shard = broker.coordinators.group_shard(group_id)
    except Refused as refused:
        done(refused)
        return

    def decide() -> Decision[groups.DescribedGroup | None]:
        group = shard.group(group_id)
        return Decision((), None if group is None else group.describe())

    shard.machine.run(decide, done)


def _shown(group_id: str, group: groups.DescribedGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )


def _not_there(group_id: str, version: int) -> DescribedGroup:
    if version < _FIRST_WITH_NOT_FOUND:
        return DescribedGroup(group_id=group_id, group_state=_DEAD)
    return DescribedGroup(
        group_id=group_id,
        group_state=_DEAD,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"there is no classic group {group_id!r}",
    )
