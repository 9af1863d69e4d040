"""IncrementalAlterConfigs, versions 0 and 1: set, delete, append to or take from configs. 1 is flexible."""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.controller.configs import ChangeConfigs, ConfigChange
from everlog.controller.decisions import Refusal
from everlog.metadata.image import ConfigResource
from everlog.model.errors import Refused, StorageError
from everlog.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from everlog.broker.desk.desk import Desk


def handle(desk: "Desk", request: IncrementalAlterConfigsRequest, exchange: Exchange) -> None:
    """Change the configs of each resource, all or none of them, and say what became of it."""
    resources = [ConfigResource(one.resource_type, one.resource_name) for one in request.resources]

    def done(reply: list[Refusal | None] | Refused | StorageError) -> None:
        outcomes = reply if isinstance(reply, list) else [Refusal.of(reply)] * len(resources)
        exchange.answer(
            IncrementalAlterConfigsResponse(
                responses=[
                    _response(resource, refusal)
                    for resource, refusal in zip(resources, outcomes, strict=True)
                ]
            )
        )

    changes = tuple(
        (
            resource,
            tuple(ConfigChange(config.name, config.config_operation, config.value) for config in one.configs),
        )
        for resource, one in zip(resources, request.resources, strict=True)
    )
    desk.controller.submit(ChangeConfigs(changes, request.validate_only), done)


def _response(resource: ConfigResource, refusal: Refusal | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=0 if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        resource_type=resource.type,
        resource_name=resource.name,
    )
