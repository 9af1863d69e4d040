"""Settings that keep moves of partitions from crowding out everything else, as Kafka has them (KIP-73)."""

from collections.abc import Iterable

from everlog.client.core.admin.configs import ConfigResource
from everlog.client.core.admin.reassign_plan import PartitionMove

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

Settings = dict[ConfigResource, dict[str, str | None]]


def throttle_settings(
    moves: Iterable[PartitionMove], bytes_per_second: int, brokers: Iterable[int]
) -> Settings:
    """What slows these moves down to so much for each broker, and nothing but these moves.

    Brokers get the rate. Topics say which replicas it is for: those that are there send, those that are added
    receive. Replicas that are in sync and only change places copy nothing and are not named.
    """
    sending: dict[str, list[str]] = {}
    receiving: dict[str, list[str]] = {}
    for move in moves:
        if move.adding:
            topic, partition = move.place.topic, move.place.partition
            sending.setdefault(topic, []).extend(f"{partition}:{broker}" for broker in move.before)
            receiving.setdefault(topic, []).extend(f"{partition}:{broker}" for broker in move.adding)
    if not sending:
        return {}
    rate = str(bytes_per_second)
    settings: Settings = {
        ConfigResource.broker(broker): {LEADER_RATE: rate, FOLLOWER_RATE: rate} for broker in sorted(brokers)
    }
    for topic in sending:
        settings[ConfigResource.topic(topic)] = {
            LEADER_REPLICAS: ",".join(sending[topic]),
            FOLLOWER_REPLICAS: ",".join(receiving[topic]),
        }
    return settings


def no_throttle_settings(topics: Iterable[str], brokers: Iterable[int]) -> Settings:
    """What takes throttles away."""
    settings: Settings = {
        ConfigResource.broker(broker): {LEADER_RATE: None, FOLLOWER_RATE: None} for broker in sorted(brokers)
    }
    for topic in sorted(set(topics)):
        settings[ConfigResource.topic(topic)] = {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}
    return settings
