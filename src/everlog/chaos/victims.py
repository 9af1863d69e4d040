"""Who is struck: brokers by their part in the topic, as it is seen now."""

from collections.abc import Mapping
from typing import assert_never

from everlog.chaos.faults import CannotBreak
from everlog.chaos.steps import Who
from everlog.chaos.target import Target
from everlog.chaos.watch import Watch
from everlog.client.core.metadata import Partition

_LED_S = 60.0


def pick_broker(who: Who, target: Target, watch: Watch) -> int:
    """The id of the broker that is meant, once all partitions are led; CannotBreak if it is none of ours."""
    watch.wait(lambda partitions: all(each.leader >= 0 for each in partitions.values()), _LED_S)
    partitions = watch.partitions
    ours = set(target.nodes)
    first = next((each for _, each in sorted(partitions.items()) if each.leader in ours), None)
    match who:
        case Who.LEADER:
            if first is None:
                raise CannotBreak(f"none of the brokers {sorted(ours)} leads anything")
            return first.leader
        case Who.CONTROLLER:
            node = watch.controller()
            if node not in ours:
                raise CannotBreak(f"node {node}, the controller, is none of {sorted(ours)}")
            return node
        case Who.FOLLOWER:
            return _follower(first or partitions[min(partitions)], partitions, ours)
        case _:
            assert_never(who)


def _follower(followed: Partition, partitions: Mapping[int, Partition], ours: set[int]) -> int:
    """One that follows a partition and leads least of the others."""
    leads = {
        node: sum(each.leader == node for each in partitions.values())
        for node in followed.replicas
        if node != followed.leader and node in ours
    }
    if not leads:
        raise CannotBreak(f"none of the brokers {sorted(ours)} follows partition {followed.index}")
    return min(leads, key=lambda node: (leads[node], node))


def led_by(node: int, watch: Watch) -> list[int]:
    """The partitions that a broker leads."""
    return [index for index, partition in watch.partitions.items() if partition.leader == node]


def has_shrunk(partitions: Mapping[int, Partition]) -> bool:
    """Whether some replica is out of the ISR."""
    return any(set(each.isr) < set(each.replicas) for each in partitions.values())


def is_whole(partitions: Mapping[int, Partition]) -> bool:
    """Whether every partition is led and all of its replicas are in sync."""
    return all(set(each.isr) == set(each.replicas) and each.leader >= 0 for each in partitions.values())
