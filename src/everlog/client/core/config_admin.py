"""Requests about settings of topics and brokers, and about brokers themselves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from everlog.client.core.errors import refusal
from everlog.client.core.metadata import Broker
from everlog.client.core.topic_admin import Done
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.messages.describe_cluster import DescribeClusterResponse
from everlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from everlog.wire.messages.describe_log_dirs import DescribeLogDirsResponse
from everlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ResourceType(IntEnum):
    """What has settings, by its number on the wire."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Where a value comes from, by its number on the wire."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class ConfigOperation(IntEnum):
    """How a value is changed, by its number on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Resource:
    """One thing that has settings. A broker's name is its id; the empty name stands for all brokers."""

    kind: ResourceType
    name: str

    def __str__(self) -> str:
        if self.kind is ResourceType.BROKER and not self.name:
            return "all brokers"
        return f"{self.kind.name.lower()} {self.name!r}"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting as it is; `value` is None where the broker keeps it to itself."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceConfigs:
    """The settings of one resource by name, or why they cannot be told."""

    resource: Resource
    entries: Sequence[ConfigEntry]
    error: Refused | None = None


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of one setting; deleting has no value."""

    name: str
    operation: ConfigOperation
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's id and brokers."""

    cluster_id: str
    controller_id: int
    brokers: Sequence[Broker]


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log directory of a broker; sizes in bytes, -1 where the broker does not tell."""

    broker: int
    path: str
    total_bytes: int
    usable_bytes: int
    partition_bytes: Mapping[TopicPartition, int]
    error: Refused | None = None


def describe_configs_request(
    resources: Iterable[Resource], keys: Sequence[str] | None, *, documentation: bool
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
    return DescribeConfigsRequest(resources=wanted, include_documentation=documentation)


def read_configs(response: DescribeConfigsResponse) -> list[ResourceConfigs]:
    """The settings of each resource, sorted by name."""
    found: list[ResourceConfigs] = []
    for result in response.results:
        resource = Resource(ResourceType(result.resource_type), result.resource_name)
        error = None
        if result.error_code != ErrorCode.NONE:
            error = refusal(result.error_code, result.error_message, str(resource))
        entries = sorted((_entry(config) for config in result.configs), key=lambda entry: entry.name)
        found.append(ResourceConfigs(resource, entries, error))
    return found


def alter_configs_request(
    resource: Resource, changes: Iterable[ConfigChange], *, validate_only: bool
) -> IncrementalAlterConfigsRequest:
    """Ask for some settings of a resource to be changed, and the others left alone."""
    configs = [
        AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
        for change in changes
    ]
    wanted = AlterConfigsResource(resource_type=resource.kind, resource_name=resource.name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[wanted], validate_only=validate_only)


def read_altered(response: IncrementalAlterConfigsResponse) -> list[Done]:
    """What became of each resource."""
    return [
        Done(
            result.resource_name,
            None
            if result.error_code == ErrorCode.NONE
            else refusal(
                result.error_code,
                result.error_message,
                str(Resource(ResourceType(result.resource_type), result.resource_name)),
            ),
        )
        for result in response.responses
    ]


def read_cluster(response: DescribeClusterResponse) -> ClusterDescription:
    """The cluster as an answer describes it; Refused if it is an error."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, response.error_message, "cluster")
    brokers = [Broker(broker.broker_id, broker.host, broker.port, broker.rack) for broker in response.brokers]
    brokers.sort(key=lambda broker: broker.node_id)
    return ClusterDescription(response.cluster_id, response.controller_id, brokers)


def read_log_dirs(broker: int, response: DescribeLogDirsResponse) -> list[LogDir]:
    """The log directories of one broker; Refused if it tells nothing at all."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, None, f"log directories of broker {broker}")
    return [
        LogDir(
            broker,
            result.log_dir,
            result.total_bytes,
            result.usable_bytes,
            {
                TopicPartition(topic.name, partition.partition_index): partition.partition_size
                for topic in result.topics
                for partition in topic.partitions
            },
            None
            if result.error_code == ErrorCode.NONE
            else refusal(result.error_code, None, f"log directory {result.log_dir} of broker {broker}"),
        )
        for result in response.results
    ]


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    known = config.config_source in ConfigSource.__members__.values()
    source = ConfigSource(config.config_source) if known else ConfigSource.UNKNOWN
    return ConfigEntry(
        config.name, config.value, source, config.read_only, config.is_sensitive, config.documentation
    )
