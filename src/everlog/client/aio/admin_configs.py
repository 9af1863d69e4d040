"""Settings of topics, brokers, groups and more: what an Admin asks about them (asyncio)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from everlog.client.aio.admin_desk import AdminDesk
from everlog.model.errors import Refused
from everlog.wire.message import Message

if TYPE_CHECKING:
    from everlog.client.core.admin.configs import (
        ConfigChanges,
        ConfigEntry,
        ConfigResource,
        ConfigResourceType,
    )

Answer = TypeVar("Answer", bound=Message)
Result = TypeVar("Result")


class ConfigCalls(AdminDesk):
    """Calls about settings."""

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        documentation: bool = False,
        synonyms: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of each resource by name, all or those named by `keys`."""
        from everlog.client.core.admin.configs import describe_configs_request, read_configs
        from everlog.wire.messages.describe_configs import DescribeConfigsResponse

        return await self._each_where_it_lives(
            resources,
            lambda asked: describe_configs_request(
                asked, keys, documentation=documentation, synonyms=synonyms
            ),
            DescribeConfigsResponse,
            read_configs,
        )

    async def alter_configs(
        self, changes: Mapping[ConfigResource, ConfigChanges], *, validate_only: bool = False
    ) -> None:
        """Change some settings of resources and leave the others; of one resource all change, or none.

        >>> await admin.alter_configs({ConfigResource.topic("orders"): {"retention.ms": "3600000"}})

        None as the value is back to the default. Lists can be added to with `ConfigChange`s.
        """
        from everlog.client.core.admin.configs import alter_configs_request, changes_of, read_altered
        from everlog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsResponse

        wanted = {resource: changes_of(entries) for resource, entries in changes.items()}
        await self._each_where_it_lives(
            wanted,
            lambda asked: alter_configs_request(
                {resource: wanted[resource] for resource in asked}, validate_only=validate_only
            ),
            IncrementalAlterConfigsResponse,
            read_altered,
        )

    async def list_config_resources(self, kinds: Iterable[ConfigResourceType] = ()) -> list[ConfigResource]:
        """What has settings: all of it, or of some kinds only."""
        from everlog.client.core.admin.configs import list_config_resources_request, read_config_resources
        from everlog.wire.messages.list_config_resources import ListConfigResourcesResponse

        request = list_config_resources_request(kinds)
        return await self._ask(request, ListConfigResourcesResponse, read_config_resources)

    async def _each_where_it_lives(
        self,
        resources: Iterable[ConfigResource],
        request: Callable[[list[ConfigResource]], Message],
        answer_type: type[Answer],
        read: Callable[[Answer], Mapping[ConfigResource, Result | Refused]],
    ) -> dict[ConfigResource, Result]:
        """Ask each broker about itself, and any broker about the rest."""

        async def ask(left: list[ConfigResource], limit: float) -> dict[ConfigResource, Result | Refused]:
            by_node: dict[int | None, list[ConfigResource]] = {}
            for resource in left:
                by_node.setdefault(resource.node_id, []).append(resource)

            async def at(
                node: int | None, asked: list[ConfigResource]
            ) -> Mapping[ConfigResource, Result | Refused]:
                if node is None:
                    return read(await self._link.call(request(asked), answer_type, limit))
                if node not in self._link.view.brokers:
                    await self._known_broker(node, limit)
                return read(await self._link.call_node(node, request(asked), answer_type, limit))

            outcomes: dict[ConfigResource, Result | Refused] = {}
            for answered in await asyncio.gather(*(at(node, asked) for node, asked in by_node.items())):
                outcomes.update(answered)
            return outcomes

        return await self._each(resources, ask)
