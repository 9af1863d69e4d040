"""Settings of topics, brokers, groups and more: what an Admin asks about them (blocking)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from everlog.client.sync.admin_desk import AdminDesk

if TYPE_CHECKING:
    from everlog.client.core.admin.configs import (
        ConfigChanges,
        ConfigEntry,
        ConfigResource,
        ConfigResourceType,
    )


class ConfigCalls(AdminDesk):
    """Calls about settings."""

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        documentation: bool = False,
        synonyms: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of each resource by name, all or those named by `keys`."""
        return self._run(
            self._admin.describe_configs(resources, keys=keys, documentation=documentation, synonyms=synonyms)
        )

    def alter_configs(
        self, changes: Mapping[ConfigResource, ConfigChanges], *, validate_only: bool = False
    ) -> None:
        """Change some settings of resources and leave the others; of one resource all change, or none.

        >>> admin.alter_configs({ConfigResource.topic("orders"): {"retention.ms": "3600000"}})

        None as the value is back to the default. Lists can be added to with `ConfigChange`s.
        """
        return self._run(self._admin.alter_configs(changes, validate_only=validate_only))

    def list_config_resources(self, kinds: Iterable[ConfigResourceType] = ()) -> list[ConfigResource]:
        """What has settings: all of it, or of some kinds only."""
        return self._run(self._admin.list_config_resources(kinds))
