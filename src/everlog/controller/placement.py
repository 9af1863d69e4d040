"""Placement: which brokers hold the replicas of new partitions, and who leads first."""

from collections.abc import Sequence
from itertools import zip_longest

from everlog.metadata.image import UNASSIGNED_DIRECTORY, BrokerImage, ClusterImage
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, Uuid
from everlog.ports.random import Random


def place_new(
    image: ClusterImage, count: int, replication_factor: int, random: Random
) -> list[tuple[int, ...]]:
    """Return the replicas of `count` new partitions, the first of each to lead.

    Where fewer brokers are alive than there are to be replicas, those that are away hold the rest: they catch
    up when they are back. Refused where not enough are known, or none is alive.
    """
    check_replication(image, replication_factor)
    alive = list(image.active_brokers())
    placed = place(alive, count, min(replication_factor, len(alive)), random)
    away = [number for number in sorted(image.brokers) if not image.brokers[number].active]
    missing = replication_factor - min(replication_factor, len(alive))
    return [
        (*replicas, *(away[(index + step) % len(away)] for step in range(missing)))
        for index, replicas in enumerate(placed)
    ]


def place(
    brokers: Sequence[BrokerImage], count: int, replication_factor: int, random: Random
) -> list[tuple[int, ...]]:
    """Return the replicas of `count` partitions on brokers that are as many as the replicas, or more.

    Leads go round the brokers from one picked by chance, so they differ by one at most. Replicas of a
    partition stand in as many racks as they can.
    """
    order = rack_alternated(brokers)
    start = random.below(len(order))
    return [
        _replicas_of_one(order, (start + index) % len(order), index // len(order), replication_factor)
        for index in range(count)
    ]


def check_replication(image: ClusterImage, replication_factor: int) -> None:
    """Refused if there are fewer brokers than replicas, or none of them is alive."""
    brokers = image.brokers if any(image.active_brokers()) else ()
    if replication_factor > len(brokers):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor is {replication_factor}, expected at most {len(brokers)}, "
            "the number of brokers that can take replicas",
        )


def rack_alternated(brokers: Sequence[BrokerImage]) -> list[BrokerImage]:
    """The brokers so that neighbours stand in different racks as far as possible."""
    racks: dict[str | None, list[BrokerImage]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack, []).append(broker)
    return [broker for row in zip_longest(*racks.values()) for broker in row if broker is not None]


def directories_of(image: ClusterImage, replicas: Sequence[int]) -> list[Uuid]:
    """The directory of each replica, where its broker has only one; else it chooses one later."""
    directories: list[Uuid] = []
    for number in replicas:
        broker = image.brokers.get(BrokerId(number))
        one = broker.directories if broker is not None else ()
        directories.append(one[0] if len(one) == 1 else UNASSIGNED_DIRECTORY)
    return directories


def _replicas_of_one(order: list[BrokerImage], lead: int, shift: int, factor: int) -> tuple[int, ...]:
    leader = order[lead]
    # The shift grows with each round over the brokers, or a broker's followers would always be the same.
    others = [
        order[(lead + 1 + (shift + step) % (len(order) - 1)) % len(order)] for step in range(len(order) - 1)
    ]
    chosen = [leader]
    for distinct_racks in (True, False):
        racks = {broker.rack for broker in chosen}
        for broker in others:
            if len(chosen) == factor:
                break
            if broker in chosen or (distinct_racks and broker.rack in racks):
                continue
            chosen.append(broker)
            racks.add(broker.rack)
    return tuple(broker.id for broker in chosen)
