"""DescribeCluster, versions 0 to 2. 1 asks for brokers or for controllers, 2 can include fenced brokers.

The controller that it names is a broker, this one if it can be: what is the controller's is passed on by any.
"""

from typing import TYPE_CHECKING

from everlog.broker.access import cluster_operations
from everlog.broker.exchange import Exchange
from everlog.broker.visibility import Visibility
from everlog.model.errors import ErrorCode
from everlog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_BROKERS, _CONTROLLERS = 1, 2


def handle(broker: "Broker", request: DescribeClusterRequest, exchange: Exchange) -> None:
    """Tell which brokers there are and where they are reached."""
    if request.endpoint_type != _BROKERS:
        exchange.answer(_wrong_type(broker, request.endpoint_type))
        return
    view = Visibility(broker.image, lambda one: broker.listener_endpoint(exchange.listener_name, one))
    brokers: list[DescribeClusterBroker] = []
    for number in sorted(broker.image.brokers):
        known = broker.image.brokers[number]
        host, port = broker.listener_endpoint(exchange.listener_name, known)
        if port >= 0 and (request.include_fenced_brokers or not known.fenced):
            brokers.append(
                DescribeClusterBroker(
                    broker_id=number, host=host, port=port, rack=known.rack, is_fenced=known.fenced
                )
            )
    exchange.answer(
        DescribeClusterResponse(
            cluster_id=broker.cluster_id,
            controller_id=view.any_broker(broker.node_id),
            brokers=brokers,
            cluster_authorized_operations=cluster_operations(
                asked=request.include_cluster_authorized_operations
            ),
        )
    )


def _wrong_type(broker: "Broker", endpoint_type: int) -> DescribeClusterResponse:
    code = (
        ErrorCode.MISMATCHED_ENDPOINT_TYPE
        if endpoint_type == _CONTROLLERS
        else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    )
    return DescribeClusterResponse(
        error_code=code,
        error_message=f"the endpoint type is {endpoint_type}, expected {_BROKERS} on a broker's listener",
        cluster_id=broker.cluster_id,
    )
