"""ListConfigResources, versions 0 and 1.

0 lists the resources of client metrics, of which there are none. 1 lists those of the types asked for, or of
all types where none is named.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.metadata.image import ClusterImage, ResourceType
from everlog.model.errors import ErrorCode
from everlog.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_TYPES = frozenset(ResourceType) - {ResourceType.UNKNOWN}


def handle(broker: "Broker", request: ListConfigResourcesRequest, exchange: Exchange) -> None:
    """List the resources that can have configs."""
    if exchange.api_version == 0:
        exchange.answer(ListConfigResourcesResponse())
        return
    types = dict.fromkeys(request.resource_types or sorted(_TYPES))
    if not _TYPES.issuperset(types):
        exchange.answer(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    exchange.answer(
        ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(resource_name=name, resource_type=kind)
                for kind in types
                for name in _names(broker.image, kind)
            ]
        )
    )


def _names(image: ClusterImage, kind: int) -> list[str]:
    match kind:
        case ResourceType.TOPIC:
            return list(image.topics)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(number) for number in sorted(image.brokers)]
        case _:
            return []
