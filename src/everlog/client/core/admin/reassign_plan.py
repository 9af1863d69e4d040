"""Where partitions should live: a plan that evens brokers out, or empties one, and moves as little as it can.

What always holds of a plan: each partition keeps its number of replicas, on brokers that may have them, no
two on one broker; its replicas stand in racks as evenly as these allow.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from everlog.client.core.admin.replica_shares import ReplicaShares
from everlog.client.core.admin.shift_paths import shortest_shift
from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition

Racks = Mapping[int, str | None]
"""The brokers that may have replicas, with the rack of each."""


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """One partition's replicas before and after, the preferred leader first."""

    place: TopicPartition
    before: Sequence[int]
    after: Sequence[int]
    size_bytes: int = 0
    """How large one replica is."""

    @property
    def adding(self) -> list[int]:
        """Brokers that get a replica."""
        return [broker for broker in self.after if broker not in self.before]

    @property
    def removing(self) -> list[int]:
        """Brokers that give theirs up."""
        return [broker for broker in self.before if broker not in self.after]

    @property
    def bytes_to_move(self) -> int:
        """What has to be copied over the network."""
        return self.size_bytes * len(self.adding)


@dataclass(frozen=True, slots=True)
class ReassignPlan:
    """The partitions that are to change, in order; those that stay as they are are not named."""

    moves: Sequence[PartitionMove]

    @property
    def bytes_to_move(self) -> int:
        """What has to be copied over the network in all."""
        return sum(move.bytes_to_move for move in self.moves)

    @property
    def replicas_to_move(self) -> int:
        """How many replicas are copied."""
        return sum(len(move.adding) for move in self.moves)

    def brokers(self) -> list[int]:
        """Every broker that sends or gets something."""
        return sorted({broker for move in self.moves for broker in (*move.before, *move.after)})


def plan_balance(
    current: Mapping[TopicPartition, Sequence[int]],
    racks: Racks,
    sizes: Mapping[TopicPartition, int] | None = None,
) -> ReassignPlan:
    """Spread partitions over brokers: as many replicas and as many preferred leaders on each, or one more.

    Where racks are of different sizes, their limits come first and brokers are as even as those let them be.
    Leaders move by a change of order alone, which copies nothing.
    """
    shares = _on_these_brokers(current, racks, sizes)
    shares.even_out()
    return _plan(current, _lead_evenly(shares.replicas, racks), sizes)


def plan_departure(
    current: Mapping[TopicPartition, Sequence[int]],
    leaving: Collection[int],
    racks: Racks,
    sizes: Mapping[TopicPartition, int] | None = None,
) -> ReassignPlan:
    """Empty some brokers: only their replicas move, each to the broker that has the fewest by then."""
    staying = {broker: rack for broker, rack in racks.items() if broker not in leaving}
    touched = {
        place: replicas for place, replicas in current.items() if any(each in leaving for each in replicas)
    }
    others = (replicas for place, replicas in current.items() if place not in touched)
    shares = _on_these_brokers(touched, staying, sizes, others)
    return _plan(touched, shares.replicas, sizes)


def plan_given(
    current: Mapping[TopicPartition, Sequence[int]],
    wanted: Mapping[TopicPartition, Sequence[int]],
    brokers: Collection[int],
    sizes: Mapping[TopicPartition, int] | None = None,
) -> ReassignPlan:
    """A plan that somebody else made, checked: ConfigError names what is not there or stands twice."""
    for place, replicas in wanted.items():
        if place not in current:
            raise ConfigError(f"partition {place} does not exist: expected partitions that are there")
        if not replicas:
            raise ConfigError(f"partition {place} has no replicas in the plan: expected at least one broker")
        if len(set(replicas)) != len(replicas):
            raise ConfigError(f"partition {place} has replicas {list(replicas)}: expected each broker once")
        strange = [broker for broker in replicas if broker not in brokers]
        if strange:
            raise ConfigError(
                f"partition {place} has replicas on {_listed(strange)}: expected brokers of the cluster, "
                f"which are {_listed(brokers)}"
            )
    return _plan({place: current[place] for place in wanted}, wanted, sizes)


def _on_these_brokers(
    current: Mapping[TopicPartition, Sequence[int]],
    racks: Racks,
    sizes: Mapping[TopicPartition, int] | None,
    others: Iterable[Sequence[int]] = (),
) -> ReplicaShares:
    """Everything on brokers that may have it and in racks as even as can be; what is right stays."""
    for place, replicas in current.items():
        if len(replicas) > len(racks):
            raise ConfigError(
                f"partition {place} has {len(replicas)} replicas, expected at most {len(racks)}: "
                f"so many brokers may have one ({_listed(racks) or 'none'})"
            )
    shares = ReplicaShares(racks, sizes or {}, others)
    for place in sorted(current):
        shares.keep(place, current[place])
    for place in sorted(current):
        shares.complete(place)
    return shares


def _lead_evenly(
    replicas: Mapping[TopicPartition, Sequence[int]], racks: Racks
) -> dict[TopicPartition, Sequence[int]]:
    """The same replicas with the leads evened out, by as few changes of leader as it takes."""
    ordered = {place: list(each) for place, each in replicas.items()}
    leads: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in racks}
    for place, each in ordered.items():
        leads[each[0]][place] = None

    def places_for(giver: int, taker: int) -> Iterable[TopicPartition]:
        return (place for place in leads[giver] if taker in ordered[place])

    while (
        path := shortest_shift({broker: len(each) for broker, each in leads.items()}, places_for)
    ) is not None:
        for giver, place, taker in path:
            del leads[giver][place]
            leads[taker][place] = None
            at = ordered[place].index(taker)
            ordered[place][0], ordered[place][at] = taker, giver
    return {place: tuple(each) for place, each in ordered.items()}


def _plan(
    current: Mapping[TopicPartition, Sequence[int]],
    wanted: Mapping[TopicPartition, Sequence[int]],
    sizes: Mapping[TopicPartition, int] | None,
) -> ReassignPlan:
    return ReassignPlan(
        [
            PartitionMove(place, tuple(current[place]), tuple(wanted[place]), (sizes or {}).get(place, 0))
            for place in sorted(wanted)
            if tuple(current[place]) != tuple(wanted[place])
        ]
    )


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(str(broker) for broker in sorted(brokers))
