"""Replicas as they are dealt out to brokers, within the limits of racks."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from everlog.client.core.admin.shift_paths import shortest_shift
from everlog.model.topics import TopicPartition

_NOBODY = -1


class ReplicaShares:
    """Who has which replicas. What always holds: a partition is nowhere twice, and in no rack too often."""

    def __init__(
        self,
        racks: Mapping[int, str | None],
        sizes: Mapping[TopicPartition, int],
        others: Iterable[Sequence[int]] = (),
    ) -> None:
        # Brokers that name no rack stand in one of their own each: nothing says that they fail together.
        self._rack_of: dict[int, object] = {
            broker: broker if rack is None else rack for broker, rack in racks.items()
        }
        self._rack_sizes = Counter(self._rack_of.values())
        self._sizes = sizes
        self._held: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in racks}
        self._fixed = Counter(broker for replicas in others for broker in replicas)
        self._limits: dict[int, int] = {}
        self._homes: dict[TopicPartition, frozenset[int]] = {}
        """Who had each partition before, and may have it."""
        self.replicas: dict[TopicPartition, list[int]] = {}
        """Where each partition is, in order; complete once `complete` was called for it."""

    def keep(self, place: TopicPartition, replicas: Sequence[int]) -> None:
        """Take a partition in with those of its replicas that may stay where they are."""
        kept: list[int] = []
        in_rack: Counter[object] = Counter()
        limit = self._limit(len(replicas))
        for broker in replicas:
            rack = self._rack_of.get(broker)
            stays = broker in self._rack_of and in_rack[rack] < limit
            if stays:
                in_rack[rack] += 1
                self._held[broker][place] = None
            kept.append(broker if stays else _NOBODY)
        self.replicas[place] = kept
        self._homes[place] = frozenset(kept)

    def complete(self, place: TopicPartition) -> None:
        """Give the replicas that had to go to the brokers with the fewest, each in its place in the order."""
        replicas = self.replicas[place]
        for at, broker in enumerate(replicas):
            if broker != _NOBODY:
                continue
            open_to = [taker for taker in self._held if self._may_take(place, taker, _NOBODY)]
            # There is always one: the limit of racks is the least that leaves room for all replicas.
            taker = min(open_to, key=lambda each: (self._load(each), self._of_topic(each, place.topic), each))
            replicas[at] = taker
            self._held[taker][place] = None

    def even_out(self) -> None:
        """Move replicas until no broker has two more than another, as far as racks allow."""
        # Those that have to be copied anyway may as well go elsewhere: that costs nothing.
        self._even_out(self._movable_guests)
        self._even_out(self._movable)

    def _even_out(self, movable: Callable[[int, int], Iterator[TopicPartition]]) -> None:
        while True:
            counts = {broker: len(held) for broker, held in self._held.items()}
            path = shortest_shift(counts, movable)
            if path is None:
                return
            for giver, place, taker in path:
                self._move(place, giver, taker)
            if len(path) == 1:
                # The same two may have more to shift between them, looked for once. Beyond an even share
                # nothing goes at one go: a third one may need it more.
                giver, _, taker = path[0]
                share, rest = divmod(sum(counts.values()), len(counts))
                surplus = len(self._held[giver]) - share - bool(rest)
                more = max(0, min(surplus, share - len(self._held[taker])))
                for place in list(islice(movable(giver, taker), more)):
                    self._move(place, giver, taker)

    def _movable_guests(self, giver: int, taker: int) -> Iterator[TopicPartition]:
        """What one broker could hand to another and did not have before."""
        return (place for place in self._movable(giver, taker) if giver not in self._homes[place])

    def _movable(self, giver: int, taker: int) -> Iterator[TopicPartition]:
        """What one broker could hand to another: topics that crowd the giver first, then what is small."""
        crowd = Counter(place.topic for place in self._held[giver])
        crowd.subtract(Counter(place.topic for place in self._held[taker]))
        ordered = sorted(
            self._held[giver], key=lambda place: (-crowd[place.topic], self._sizes.get(place, 0), place)
        )
        return (place for place in ordered if self._may_take(place, taker, giver))

    def _may_take(self, place: TopicPartition, taker: int, giver: int) -> bool:
        replicas = self.replicas[place]
        if taker in replicas:
            return False
        rack = self._rack_of[taker]
        there = sum(each != giver and each != _NOBODY and self._rack_of[each] == rack for each in replicas)
        return there < self._limit(len(replicas))

    def _move(self, place: TopicPartition, giver: int, taker: int) -> None:
        replicas = self.replicas[place]
        replicas[replicas.index(giver)] = taker
        del self._held[giver][place]
        self._held[taker][place] = None

    def _load(self, broker: int) -> int:
        return len(self._held[broker]) + self._fixed[broker]

    def _of_topic(self, broker: int, topic: str) -> int:
        return sum(place.topic == topic for place in self._held[broker])

    def _limit(self, replicas: int) -> int:
        """How many replicas of a partition a rack may have: as few as leave room for all of them."""
        found = self._limits.get(replicas)
        if found is None:
            found = 1
            while sum(min(found, size) for size in self._rack_sizes.values()) < replicas:
                found += 1
            self._limits[replicas] = found
        return found
