"""Partitions shared out evenly, and so that as little as can be moves.

Where all subscribe to the same topics, shares differ by one partition at most. Where they do not, nobody's
share could be made smaller by moving partitions on, one to another, to somebody whose share is smaller by two
or more: no assignment is more even. The coordinator's uniform assignor, which knows topics by id, and the
client's sticky ones, which know them by name, both are this.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

from everlog.model.dataclass import dataclass
from everlog.model.ids import Uuid

T = TypeVar("T", str, Uuid)
"""What names a topic."""


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """Who gets a share."""

    topics: frozenset[T]
    """What it subscribes to."""
    had: AbstractSet[tuple[T, int]] = frozenset()
    """The topics and partitions that it had before."""


def share_evenly(readers: Mapping[str, Reader[T]], counts: Mapping[T, int]) -> dict[str, set[tuple[T, int]]]:
    """Share out the partitions that each topic has so many of, starting from what each reader had before.

    Topics without a count are left out; every reader is in the answer.
    """
    if not readers:
        return {}
    topics = {reader.topics for reader in readers.values()}
    if len(topics) == 1:
        return _share_alike(readers, next(iter(topics)), counts)
    return _Balance(readers, counts).share()


def _share_alike(
    members: Mapping[str, Reader[T]], topics: frozenset[T], counts: Mapping[T, int]
) -> dict[str, set[tuple[T, int]]]:
    partitions = _partitions(topics, counts)
    exists = frozenset(partitions)
    least, over = divmod(len(partitions), len(members))
    shares: dict[str, set[tuple[T, int]]] = {}
    taken: set[tuple[T, int]] = set()
    for member_id in sorted(members):
        had = sorted((members[member_id].had & exists) - taken)
        # As many members as there are partitions over may keep one more than the least.
        room = least + (over > 0)
        kept = had[:room]
        over -= len(kept) > least
        shares[member_id] = set(kept)
        taken.update(kept)
    free = deque(one for one in partitions if one not in taken)
    for size in (least, least + 1):
        for share in shares.values():
            while free and len(share) < size:
                share.add(free.popleft())
    return shares


def _partitions(topics: Iterable[T], counts: Mapping[T, int]) -> list[tuple[T, int]]:
    return [(topic, index) for topic in sorted(topics) for index in range(counts.get(topic, 0))]


class _Balance(Generic[T]):
    """Shares of members that subscribe to different topics, on their way to the most even ones."""

    def __init__(self, members: Mapping[str, Reader[T]], counts: Mapping[T, int]) -> None:
        self._counts: Mapping[T, int] = counts
        self._readers: dict[T, list[str]] = {}
        for member_id in sorted(members):
            for topic in sorted(members[member_id].topics & counts.keys()):
                self._readers.setdefault(topic, []).append(member_id)
        # The partitions of each member by topic; `_sizes` counts them all.
        self._shares: dict[str, dict[T, set[int]]] = {member_id: {} for member_id in members}
        self._sizes = dict.fromkeys(sorted(members), 0)
        taken: set[tuple[T, int]] = set()
        for member_id in sorted(members):
            member = members[member_id]
            for one in sorted(member.had - taken):
                if one[0] in member.topics and one[1] < counts.get(one[0], 0):
                    self._give(member_id, one)
                    taken.add(one)
        self._free: list[tuple[T, int]] = [one for one in self._by_choice() if one not in taken]

    def share(self) -> dict[str, set[tuple[T, int]]]:
        """The most even shares that move little."""
        for one in self._free:
            self._give(min(self._readers[one[0]], key=self._sizes.__getitem__), one)
        self._even_out()
        return {
            member_id: {(topic, index) for topic, indexes in share.items() for index in indexes}
            for member_id, share in self._shares.items()
        }

    def _by_choice(self) -> list[tuple[T, int]]:
        # Topics with few readers first: what they get, others can make room for.
        topics = sorted(self._readers, key=lambda topic: (len(self._readers[topic]), topic))
        return [(topic, index) for topic in topics for index in range(self._counts[topic])]

    def _give(self, member_id: str, one: tuple[T, int]) -> None:
        self._shares[member_id].setdefault(one[0], set()).add(one[1])
        self._sizes[member_id] += 1

    def _take(self, member_id: str, topic: T) -> tuple[T, int]:
        indexes = self._shares[member_id][topic]
        index = max(indexes)
        indexes.remove(index)
        if not indexes:
            del self._shares[member_id][topic]
        self._sizes[member_id] -= 1
        return (topic, index)

    def _even_out(self) -> None:
        # Once the largest share cannot be made smaller it stays so: all whom its partitions can reach have at
        # most one fewer, and a way down from a share that is no larger ends lower, so it meets none of them.
        settled: set[str] = set()
        while len(settled) < len(self._sizes):
            most = max(
                (member_id for member_id in self._sizes if member_id not in settled),
                key=self._sizes.__getitem__,
            )
            path = self._way_down(most)
            if path is None:
                settled.add(most)
                continue
            # From the far end: each hands one partition on to the next.
            for giver, topic, taker in reversed(path):
                self._give(taker, self._take(giver, topic))

    def _way_down(self, start: str) -> list[tuple[str, T, str]] | None:
        """The shortest way to hand partitions on from `start` to a member with at least two fewer."""
        came_from: dict[str, tuple[str, T]] = {}
        seen_topics: set[T] = set()
        limit = self._sizes[start] - 2
        queue = deque([start])
        while queue:
            giver = queue.popleft()
            for topic in sorted(self._shares[giver]):
                if topic in seen_topics:
                    continue
                seen_topics.add(topic)
                for taker in self._readers[topic]:
                    if taker == start or taker in came_from:
                        continue
                    came_from[taker] = (giver, topic)
                    if self._sizes[taker] <= limit:
                        return self._path(start, taker, came_from)
                    queue.append(taker)
        return None

    @staticmethod
    def _path(start: str, end: str, came_from: Mapping[str, tuple[str, T]]) -> list[tuple[str, T, str]]:
        path: list[tuple[str, T, str]] = []
        at = end
        while at != start:
            giver, topic = came_from[at]
            path.append((giver, topic, at))
            at = giver
        return path[::-1]
