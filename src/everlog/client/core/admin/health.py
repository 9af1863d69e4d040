"""What is wrong with a cluster, judged from what its brokers tell."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from everlog.client.core.admin.cluster import ClusterDescription, Quorum, QuorumReplica
from everlog.client.core.admin.log_dirs import LogDir
from everlog.client.core.admin.topics import TopicDescription
from everlog.client.core.metadata import Partition
from everlog.model.topics import TopicPartition


class Trouble(StrEnum):
    """What may be wrong."""

    LEADERLESS = "leaderless partition"
    """Nobody leads it: it can be neither written nor read."""
    UNDER_MIN_ISR = "partition under min.insync.replicas"
    """Writes with acks=all are refused."""
    UNDER_REPLICATED = "under-replicated partition"
    """Some replica is behind."""
    OFFLINE_REPLICAS = "partition with offline replicas"
    """Some replica is on a broker that is down, or in a directory that has failed."""
    FENCED = "fenced broker"
    """A broker that is registered and takes no part: it is down, or starts."""
    UNREACHABLE = "unreachable broker"
    """A broker that should serve and does not answer."""
    FAILED_DIRECTORY = "failed log directory"
    FULL_DISK = "full disk"
    LAGGING_VOTER = "lagging voter"
    """A controller that does not keep up; the quorum has fewer to spare."""
    NO_SPARE_VOTER = "quorum without a voter to spare"
    """One more failure, and the cluster's metadata can change no more."""
    UNEVEN_LEADERS = "broker with fewer leads than it should have"


NOTICES = frozenset({Trouble.UNEVEN_LEADERS})
"""What is worth knowing and makes no cluster unhealthy."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    trouble: Trouble
    subject: str
    detail: str

    @property
    def is_notice(self) -> bool:
        """Whether a healthy cluster may have it."""
        return self.trouble in NOTICES


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What the brokers told, all at about the same time."""

    cluster: ClusterDescription
    topics: Mapping[str, TopicDescription]
    min_isr: Mapping[str, int] = field(default_factory=dict[str, int])
    """By topic; 1 where it is not known."""
    quorum: Quorum | None = None
    log_dirs: Sequence[LogDir] = ()
    unreachable: Mapping[int, str] = field(default_factory=dict[int, str])
    """Brokers that did not answer, and why."""

    def partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        """Every partition in order."""
        for name, topic in sorted(self.topics.items()):
            for index, partition in sorted(topic.partitions.items()):
                yield TopicPartition(name, index), partition


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """From where on something is trouble."""

    disk_used_percent: float = 90.0
    voter_lag_records: int = 5_000
    voter_lag_ms: int = 10_000
    leader_imbalance_percent: float = 10.0
    """Kafka's own, `leader.imbalance.per.broker.percentage`."""


DEFAULT_LIMITS = HealthLimits()


def examine(facts: ClusterFacts, limits: HealthLimits = DEFAULT_LIMITS) -> list[Finding]:
    """Everything that is wrong, what matters most first."""
    order = list(Trouble)
    found = [
        *_of_partitions(facts),
        *_of_brokers(facts),
        *_of_disks(facts, limits),
        *_of_quorum(facts, limits),
        *_of_leaders(facts, limits),
    ]
    return sorted(found, key=lambda finding: order.index(finding.trouble))


def _of_partitions(facts: ClusterFacts) -> Iterator[Finding]:
    for place, partition in facts.partitions():
        replicas, isr = _listed(partition.replicas), _listed(partition.isr)
        if partition.leader < 0:
            yield Finding(Trouble.LEADERLESS, str(place), f"replicas {replicas}, in sync {isr}")
        # A partition cannot have more in sync than it has replicas, whatever its topic asks for.
        least = min(facts.min_isr.get(place.topic, 1), len(partition.replicas))
        if len(partition.isr) < least:
            yield Finding(Trouble.UNDER_MIN_ISR, str(place), f"in sync {isr}, expected {least} at least")
        if len(partition.isr) < len(partition.replicas):
            behind = _listed(broker for broker in partition.replicas if broker not in partition.isr)
            yield Finding(Trouble.UNDER_REPLICATED, str(place), f"in sync {isr}, behind {behind}")
        if partition.offline:
            yield Finding(
                Trouble.OFFLINE_REPLICAS, str(place), f"offline {_listed(partition.offline)} of {replicas}"
            )


def _of_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    holds = Counter(broker for _, partition in facts.partitions() for broker in partition.replicas)
    known = {broker.node_id for broker in facts.cluster.brokers}
    for broker in sorted({*facts.cluster.fenced, *(each for each in holds if each not in known)}):
        yield Finding(Trouble.FENCED, f"broker {broker}", f"it has {holds[broker]} replicas")
    for broker, reason in sorted(facts.unreachable.items()):
        if broker not in facts.cluster.fenced:
            yield Finding(Trouble.UNREACHABLE, f"broker {broker}", reason)


def _of_disks(facts: ClusterFacts, limits: HealthLimits) -> Iterator[Finding]:
    for log_dir in facts.log_dirs:
        subject = f"{log_dir.path} of broker {log_dir.broker}"
        if log_dir.error is not None:
            yield Finding(Trouble.FAILED_DIRECTORY, subject, log_dir.error.code.name)
        elif log_dir.total_bytes > 0 and log_dir.usable_bytes >= 0:
            used = 100 * (1 - log_dir.usable_bytes / log_dir.total_bytes)
            if used >= limits.disk_used_percent:
                detail = f"{used:.1f} % used, expected less than {limits.disk_used_percent:g} %"
                yield Finding(Trouble.FULL_DISK, subject, detail)


def _of_quorum(facts: ClusterFacts, limits: HealthLimits) -> Iterator[Finding]:
    quorum = facts.quorum
    if quorum is None:
        return
    lagging = 0
    for voter in quorum.voters:
        reason = _lag(quorum, voter, limits)
        if reason is not None:
            lagging += 1
            yield Finding(Trouble.LAGGING_VOTER, f"voter {voter.node_id}", reason)
    keeping_up, majority = len(quorum.voters) - lagging, len(quorum.voters) // 2 + 1
    if lagging and keeping_up <= majority:
        detail = f"{keeping_up} of {len(quorum.voters)} keep up, {majority} are needed"
        yield Finding(Trouble.NO_SPARE_VOTER, "quorum", detail)


def _lag(quorum: Quorum, voter: QuorumReplica, limits: HealthLimits) -> str | None:
    """How a voter is behind, if it is."""
    leader = next((each for each in quorum.voters if each.node_id == quorum.leader_id), None)
    if leader is None or voter is leader:
        return None
    records = leader.log_end_offset - voter.log_end_offset
    if records > limits.voter_lag_records:
        return f"{records} records behind, expected {limits.voter_lag_records} at most"
    if leader.last_caught_up_timestamp is None:
        return None
    if voter.last_caught_up_timestamp is None:
        return "it was never caught up"
    behind_ms = leader.last_caught_up_timestamp - voter.last_caught_up_timestamp
    if behind_ms > limits.voter_lag_ms:
        return f"caught up {behind_ms / 1000:.0f} s ago, expected {limits.voter_lag_ms / 1000:g} s at most"
    return None


def _of_leaders(facts: ClusterFacts, limits: HealthLimits) -> Iterator[Finding]:
    preferred: Counter[int] = Counter()
    elsewhere: Counter[int] = Counter()
    for _, partition in facts.partitions():
        if partition.replicas:
            preferred[partition.replicas[0]] += 1
            elsewhere[partition.replicas[0]] += partition.leader != partition.replicas[0]
    for broker in sorted(preferred):
        percent = 100 * elsewhere[broker] / preferred[broker]
        if percent > limits.leader_imbalance_percent:
            detail = (
                f"others lead {elsewhere[broker]} of the {preferred[broker]} partitions that it should lead"
            )
            yield Finding(Trouble.UNEVEN_LEADERS, f"broker {broker}", detail)


def _listed(brokers: Iterable[int]) -> str:
    return ",".join(str(broker) for broker in brokers) or "none"
