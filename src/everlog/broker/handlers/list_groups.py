"""ListGroups, versions 0 to 5.

3 is flexible, 4 asks for states and answers them, 5 asks for types and answers them. A broker tells of the
groups that it coordinates; a client asks them all.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: ListGroupsRequest, exchange: Exchange) -> None:
    """Name the groups that pass the filters; both compare without regard to case."""
    groups = broker.coordinators.groups
    if groups.unready is not ErrorCode.NONE:
        # Half a list would look like a whole one.
        exchange.answer(ListGroupsResponse(error_code=groups.unready))
        return
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    exchange.answer(
        ListGroupsResponse(
            groups=[
                ListedGroup(
                    group_id=group.id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.type,
                )
                for _, shard in groups.serving()
                for group in shard.all_groups()
                if (not states or group.state.lower() in states)
                and (not types or group.type.lower() in types)
            ]
        )
    )
