"""What commands about a cluster ask of it: brokers, topics, sizes; a broker that is down stops none of it."""

from collections.abc import Iterable

from everlog.client.core.admin.cluster import ClusterDescription, Quorum
from everlog.client.core.admin.configs import ConfigResource
from everlog.client.core.admin.health import ClusterFacts
from everlog.client.core.admin.log_dirs import LogDir
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.errors import Unsupported
from everlog.client.sync.admin import Admin
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition

MIN_ISR = "min.insync.replicas"


def gather_facts(admin: Admin) -> ClusterFacts:
    """All that the health of a cluster is judged by."""
    cluster = describe_brokers(admin)
    topics = admin.describe_topics()
    log_dirs, unreachable = directories(admin, cluster)
    return ClusterFacts(cluster, topics, min_isr_of(admin, topics), quorum_of(admin), log_dirs, unreachable)


def describe_brokers(admin: Admin) -> ClusterDescription:
    """The cluster with its fenced brokers, where it can tell."""
    try:
        return admin.describe_cluster(include_fenced_brokers=True)
    except Unsupported:
        return admin.describe_cluster()


def quorum_of(admin: Admin) -> Quorum | None:
    """The quorum, or None where the cluster does not tell."""
    try:
        return admin.describe_quorum()
    except Unsupported:
        return None


def min_isr_of(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """How many replicas of each topic must be in sync for acks=all; a topic that is just deleted has none."""
    resources = [ConfigResource.topic(name) for name in topics]
    try:
        found = admin.describe_configs(resources, keys=[MIN_ISR])
    except ItemsRefused as error:
        found = error.done
    least: dict[str, int] = {}
    for resource, entries in found.items():
        entry = entries.get(MIN_ISR)
        if entry is not None and entry.value is not None and entry.value.isdecimal():
            least[resource.name] = int(entry.value)
    return least


def directories(admin: Admin, cluster: ClusterDescription) -> tuple[list[LogDir], dict[int, str]]:
    """The directories of every broker that serves, and why some do not tell."""
    found: list[LogDir] = []
    unreachable: dict[int, str] = {}
    for broker in cluster.brokers:
        if broker.node_id in cluster.fenced:
            continue
        try:
            found += admin.describe_log_dirs([broker.node_id])
        except EverlogError as error:
            unreachable[broker.node_id] = str(error)
    return found, unreachable


def replica_sizes(log_dirs: Iterable[LogDir]) -> dict[TopicPartition, dict[int, int]]:
    """How large the replica of a partition is on each broker, without those that move between directories."""
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for log_dir in log_dirs:
        for place, size in log_dir.partition_bytes.items():
            if place not in log_dir.moving_in:
                sizes.setdefault(place, {})[log_dir.broker] = size
    return sizes
