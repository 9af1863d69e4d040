"""Requests about the settings of topics, brokers, their loggers, groups and client metrics."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.errors import refusal
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from everlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from everlog.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


class ConfigResourceType(IntEnum):
    """What has settings, by its number on the wire."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from, by its number on the wire."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigOperation(IntEnum):
    """How a value is changed, by its number on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """One thing that has settings. A broker's name is its id; the empty name stands for all brokers.

    >>> ConfigResource.topic("orders"), ConfigResource.broker(1), ConfigResource.all_brokers()
    """

    kind: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> Self:
        """A topic."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> Self:
        """One broker."""
        return cls(ConfigResourceType.BROKER, str(node_id))

    @classmethod
    def all_brokers(cls) -> Self:
        """What holds for every broker that has no setting of its own."""
        return cls(ConfigResourceType.BROKER, "")

    @classmethod
    def broker_logger(cls, node_id: int) -> Self:
        """The loggers of one broker, whose settings are log levels."""
        return cls(ConfigResourceType.BROKER_LOGGER, str(node_id))

    @classmethod
    def group(cls, group_id: str) -> Self:
        """A group."""
        return cls(ConfigResourceType.GROUP, group_id)

    @classmethod
    def client_metrics(cls, name: str) -> Self:
        """A subscription to metrics of clients (KIP-714)."""
        return cls(ConfigResourceType.CLIENT_METRICS, name)

    @property
    def node_id(self) -> int | None:
        """The broker that alone can answer for it; None where any can."""
        lives_there = self.kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
        return int(self.name) if lives_there and self.name.isdecimal() else None

    def __str__(self) -> str:
        if self.kind is ConfigResourceType.BROKER and not self.name:
            return "all brokers"
        return f"{self.kind.name.lower().replace('_', ' ')} {self.name!r}"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting as it is; `value` is None where the broker keeps it to itself."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None = None
    synonyms: Sequence[tuple[str, str | None, ConfigSource]] = ()
    """Names, values and sources that were considered, that in effect first; empty unless asked for."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of one setting; deleting has no value."""

    name: str
    operation: ConfigOperation
    value: str | None = None


ConfigChanges = Mapping[str, str | None] | Sequence[ConfigChange]
"""New values by name, None being back to the default; or changes, which can also add to lists."""


def changes_of(wanted: ConfigChanges) -> Sequence[ConfigChange]:
    """Changes, however they are written."""
    if not isinstance(wanted, Mapping):
        return wanted
    return [
        ConfigChange(name, ConfigOperation.DELETE)
        if value is None
        else ConfigChange(name, ConfigOperation.SET, value)
        for name, value in wanted.items()
    ]


def describe_configs_request(
    resources: Iterable[ConfigResource],
    keys: Sequence[str] | None,
    *,
    documentation: bool = False,
    synonyms: bool = False,
) -> DescribeConfigsRequest:
    """Ask for the settings of resources, all or those named by `keys`."""
    wanted = [
        DescribeConfigsResource(
            resource_type=resource.kind,
            resource_name=resource.name,
            configuration_keys=None if keys is None else list(keys),
        )
        for resource in resources
    ]
    return DescribeConfigsRequest(
        resources=wanted, include_documentation=documentation, include_synonyms=synonyms
    )


def read_configs(
    response: DescribeConfigsResponse,
) -> dict[ConfigResource, dict[str, ConfigEntry] | Refused]:
    """The settings of each resource, sorted by name."""
    found: dict[ConfigResource, dict[str, ConfigEntry] | Refused] = {}
    for result in response.results:
        resource = _resource(result.resource_type, result.resource_name)
        entries = {
            config.name: _entry(config) for config in sorted(result.configs, key=lambda each: each.name)
        }
        found[resource] = outcome(entries, result.error_code, result.error_message, str(resource))
    return found


def alter_configs_request(
    wanted: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool
) -> IncrementalAlterConfigsRequest:
    """Ask for some settings of resources to be changed, and the others left alone."""
    resources = [
        AlterConfigsResource(
            resource_type=resource.kind,
            resource_name=resource.name,
            configs=[
                AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
                for change in changes
            ],
        )
        for resource, changes in wanted.items()
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


def read_altered(response: IncrementalAlterConfigsResponse) -> dict[ConfigResource, Refused | None]:
    """What became of each resource."""
    altered: dict[ConfigResource, Refused | None] = {}
    for result in response.responses:
        resource = _resource(result.resource_type, result.resource_name)
        altered[resource] = outcome(None, result.error_code, result.error_message, str(resource))
    return altered


def list_config_resources_request(kinds: Iterable[ConfigResourceType]) -> ListConfigResourcesRequest:
    """Ask what has settings, of some kinds or with none of all (KIP-1142)."""
    return ListConfigResourcesRequest(resource_types=[int(kind) for kind in kinds])


def read_config_resources(response: ListConfigResourcesResponse) -> list[ConfigResource]:
    """The resources, by kind and name."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, None, "list of what has settings")
    found = [_resource(entry.resource_type, entry.resource_name) for entry in response.config_resources]
    return sorted(found, key=lambda resource: (resource.kind, resource.name))


def _resource(kind: int, name: str) -> ConfigResource:
    known = kind in ConfigResourceType.__members__.values()
    return ConfigResource(ConfigResourceType(kind) if known else ConfigResourceType.UNKNOWN, name)


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in ConfigSource.__members__.values() else ConfigSource.UNKNOWN


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        _source(config.config_source),
        config.read_only,
        config.is_sensitive,
        config.documentation,
        tuple((each.name, each.value, _source(each.source)) for each in config.synonyms),
    )
