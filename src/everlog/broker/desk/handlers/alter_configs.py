"""AlterConfigs, versions 0 to 2: a resource gets these configs and loses all others. 2 is flexible.

Clients that can use IncrementalAlterConfigs, for this way two who change different configs undo each other.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.controller.configs import ReplaceConfigs
from everlog.controller.decisions import Refusal
from everlog.metadata.image import ConfigResource
from everlog.model.errors import Refused, StorageError
from everlog.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from everlog.broker.desk.desk import Desk


def handle(desk: "Desk", request: AlterConfigsRequest, exchange: Exchange) -> None:
    """Replace the configs of each resource, all or none of them, and say what became of it."""
    resources = [ConfigResource(one.resource_type, one.resource_name) for one in request.resources]

    def done(reply: list[Refusal | None] | Refused | StorageError) -> None:
        outcomes = reply if isinstance(reply, list) else [Refusal.of(reply)] * len(resources)
        exchange.answer(
            AlterConfigsResponse(
                responses=[
                    _response(resource, refusal)
                    for resource, refusal in zip(resources, outcomes, strict=True)
                ]
            )
        )

    wanted = tuple(
        (resource, tuple((config.name, config.value) for config in one.configs))
        for resource, one in zip(resources, request.resources, strict=True)
    )
    desk.controller.submit(ReplaceConfigs(wanted, request.validate_only), done)


def _response(resource: ConfigResource, refusal: Refusal | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=0 if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        resource_type=resource.type,
        resource_name=resource.name,
    )
