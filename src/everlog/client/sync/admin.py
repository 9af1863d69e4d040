"""Topics, settings, brokers: what an administrator asks of a cluster."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from everlog.client.core.config_admin import (
    ClusterDescription,
    ConfigChange,
    LogDir,
    Resource,
    ResourceConfigs,
    ResourceType,
    alter_configs_request,
    describe_configs_request,
    read_altered,
    read_cluster,
    read_configs,
    read_log_dirs,
)
from everlog.client.core.errors import refusal
from everlog.client.core.metadata import Topic
from everlog.client.core.topic_admin import (
    Done,
    NewTopic,
    RecordsDeleted,
    TopicCreated,
    create_partitions_request,
    create_topics_request,
    delete_records_requests,
    delete_topics_request,
    read_created,
    read_deleted,
    read_partitions_created,
    read_records_deleted,
)
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.connection import Connection
from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_UUID
from everlog.model.topics import TopicPartition
from everlog.wire.apis import ApiKey
from everlog.wire.messages.create_partitions import CreatePartitionsResponse
from everlog.wire.messages.create_topics import CreateTopicsResponse
from everlog.wire.messages.delete_records import DeleteRecordsResponse
from everlog.wire.messages.delete_topics import DeleteTopicsResponse
from everlog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from everlog.wire.messages.describe_configs import DescribeConfigsResponse
from everlog.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from everlog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsResponse


class Admin:
    """Calls that look at a cluster or change it. One item that fails never hides what became of the others.

    >>> Admin(cluster).create_topics([NewTopic("orders", partitions=3)])
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timeout_ms = int(cluster.timeout * 1000)

    def create_topics(
        self, topics: Collection[NewTopic], *, validate_only: bool = False
    ) -> list[TopicCreated]:
        """Create topics, or with `validate_only` say whether they could be created."""
        request = create_topics_request(topics, self._timeout_ms, validate_only=validate_only)
        return read_created(self._cluster.call(request, CreateTopicsResponse))

    def delete_topics(self, names: Sequence[str]) -> list[Done]:
        """Delete topics and all of their records."""
        broker = self._cluster.any_broker()
        version = broker.versions.pick(ApiKey.DELETE_TOPICS)
        request = delete_topics_request(names, self._timeout_ms, version)
        return read_deleted(broker.call(request, DeleteTopicsResponse, self._cluster.timeout))

    def add_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> list[Done]:
        """Give topics more partitions, `counts` being the new totals; records do not move."""
        request = create_partitions_request(counts, self._timeout_ms, validate_only=validate_only)
        return read_partitions_created(self._cluster.call(request, CreatePartitionsResponse))

    def describe_topics(self, names: Collection[str] | None = None) -> list[Topic]:
        """Describe topics, or with None all of them, by name; one that does not exist has its `error` set."""
        view = self._cluster.refresh(names)
        if names is None:
            return [view.topics[name] for name in sorted(view.topics)]
        absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return [view.topics.get(name) or Topic(name, NO_UUID, False, {}, absent) for name in names]

    def describe_configs(
        self, resources: Iterable[Resource], keys: Sequence[str] | None = None, *, documentation: bool = False
    ) -> list[ResourceConfigs]:
        """The settings of topics and brokers, all or those named by `keys`."""
        found: list[ResourceConfigs] = []
        by_broker: dict[str, list[Resource]] = {}
        for resource in resources:
            by_broker.setdefault(_broker_to_ask(resource), []).append(resource)
        for broker, asked in by_broker.items():
            request = describe_configs_request(asked, keys, documentation=documentation)
            connection = self._connection(broker)
            response = connection.call(request, DescribeConfigsResponse, self._cluster.timeout)
            found.extend(read_configs(response))
        return found

    def alter_configs(
        self, resource: Resource, changes: Iterable[ConfigChange], *, validate_only: bool = False
    ) -> Done:
        """Change some settings of a resource; the others stay as they are. All changes are made, or none."""
        request = alter_configs_request(resource, changes, validate_only=validate_only)
        connection = self._connection(_broker_to_ask(resource))
        response = connection.call(request, IncrementalAlterConfigsResponse, self._cluster.timeout)
        results = read_altered(response)
        if len(results) != 1:
            raise refusal(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"{len(results)} answers for one resource", str(resource)
            )
        return results[0]

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, its controller and its brokers."""
        return read_cluster(self._cluster.call(DescribeClusterRequest(), DescribeClusterResponse))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> list[RecordsDeleted]:
        """Delete the records that lie before an offset of each partition; -1 is all that there are."""
        self._cluster.topics(sorted({place.topic for place in before}))
        requests, leaderless = delete_records_requests(before, self._cluster.view, self._timeout_ms)
        deleted = [
            RecordsDeleted(
                place, error=refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, f"records of {place}")
            )
            for place in leaderless
        ]
        for node, request in requests.items():
            response = self._cluster.broker(node).call(request, DeleteRecordsResponse, self._cluster.timeout)
            deleted.extend(read_records_deleted(response))
        return sorted(deleted, key=lambda entry: entry.place)

    def log_dirs(self) -> list[LogDir]:
        """The log directories of all brokers, with the size of each partition."""
        view = self._cluster.refresh([])
        found: list[LogDir] = []
        for node in sorted(view.brokers):
            connection = self._cluster.broker(node)
            request = DescribeLogDirsRequest(topics=None)
            found.extend(
                read_log_dirs(node, connection.call(request, DescribeLogDirsResponse, self._cluster.timeout))
            )
        return found

    def _connection(self, broker: str) -> Connection:
        if not broker:
            return self._cluster.any_broker()
        self._cluster.refresh([])
        if not broker.isdecimal() or int(broker) not in self._cluster.view.brokers:
            known = ", ".join(str(node) for node in sorted(self._cluster.view.brokers))
            raise refusal(ErrorCode.BROKER_NOT_AVAILABLE, f"expected one of {known}", f"broker {broker!r}")
        return self._cluster.broker(int(broker))


def _broker_to_ask(resource: Resource) -> str:
    """The id of the broker that alone knows a resource, or nothing where any broker will do."""
    return resource.name if resource.kind is ResourceType.BROKER else ""
