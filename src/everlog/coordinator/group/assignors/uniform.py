"""The uniform assignor: everyone gets equally much, and as little as can be moves.

Where all subscribe to the same topics, shares differ by one partition at most. Where they do not, nobody's
share could be made smaller by moving partitions on, one to another, to somebody whose share is smaller by two
or more: no assignment is more even.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from everlog.coordinator.group.assignors import Subscriber
from everlog.coordinator.group.consumer_member import Partitions, TopicIdPartition
from everlog.model.ids import Uuid


def assign_uniformly(members: Mapping[str, Subscriber], counts: Mapping[Uuid, int]) -> dict[str, Partitions]:
    """Share out evenly, starting from what each member was to have before."""
    if not members:
        return {}
    topics = {member.topics for member in members.values()}
    if len(topics) == 1:
        return _assign_alike(members, next(iter(topics)), counts)
    return _Balance(members, counts).assign()


def _assign_alike(
    members: Mapping[str, Subscriber], topics: frozenset[Uuid], counts: Mapping[Uuid, int]
) -> dict[str, Partitions]:
    partitions = _partitions(topics, counts)
    exists = frozenset(partitions)
    least, over = divmod(len(partitions), len(members))
    shares: dict[str, set[TopicIdPartition]] = {}
    taken: set[TopicIdPartition] = set()
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
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _partitions(topics: Iterable[Uuid], counts: Mapping[Uuid, int]) -> list[TopicIdPartition]:
    return [
        TopicIdPartition(topic_id, index)
        for topic_id in sorted(topics)
        for index in range(counts.get(topic_id, 0))
    ]


class _Balance:
    """Shares of members that subscribe to different topics, on their way to the most even ones."""

    def __init__(self, members: Mapping[str, Subscriber], counts: Mapping[Uuid, int]) -> None:
        self._counts = counts
        self._readers: dict[Uuid, list[str]] = {}
        for member_id in sorted(members):
            for topic_id in sorted(members[member_id].topics & counts.keys()):
                self._readers.setdefault(topic_id, []).append(member_id)
        # The partitions of each member by topic; `_sizes` counts them all.
        self._shares: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in members}
        self._sizes = dict.fromkeys(sorted(members), 0)
        taken: set[TopicIdPartition] = set()
        for member_id in sorted(members):
            member = members[member_id]
            for one in sorted(member.had - taken):
                if one.topic_id in member.topics and one.partition < counts.get(one.topic_id, 0):
                    self._give(member_id, one)
                    taken.add(one)
        self._free = [one for one in self._by_choice() if one not in taken]

    def assign(self) -> dict[str, Partitions]:
        """The most even shares that move little."""
        for one in self._free:
            self._give(min(self._readers[one.topic_id], key=self._sizes.__getitem__), one)
        self._even_out()
        return {
            member_id: frozenset(
                TopicIdPartition(topic_id, index) for topic_id, indexes in share.items() for index in indexes
            )
            for member_id, share in self._shares.items()
        }

    def _by_choice(self) -> list[TopicIdPartition]:
        # Topics with few readers first: what they get, others can make room for.
        topics = sorted(self._readers, key=lambda topic_id: (len(self._readers[topic_id]), topic_id))
        return [
            TopicIdPartition(topic_id, index)
            for topic_id in topics
            for index in range(self._counts[topic_id])
        ]

    def _give(self, member_id: str, one: TopicIdPartition) -> None:
        self._shares[member_id].setdefault(one.topic_id, set()).add(one.partition)
        self._sizes[member_id] += 1

    def _take(self, member_id: str, topic_id: Uuid) -> TopicIdPartition:
        indexes = self._shares[member_id][topic_id]
        index = max(indexes)
        indexes.remove(index)
        if not indexes:
            del self._shares[member_id][topic_id]
        self._sizes[member_id] -= 1
        return TopicIdPartition(topic_id, index)

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
            for giver, topic_id, taker in reversed(path):
                self._give(taker, self._take(giver, topic_id))

    def _way_down(self, start: str) -> list[tuple[str, Uuid, str]] | None:
        """The shortest way to hand partitions on from `start` to a member with at least two fewer."""
        came_from: dict[str, tuple[str, Uuid]] = {}
        seen_topics: set[Uuid] = set()
        limit = self._sizes[start] - 2
        queue = deque([start])
        while queue:
            giver = queue.popleft()
            for topic_id in sorted(self._shares[giver]):
                if topic_id in seen_topics:
                    continue
                seen_topics.add(topic_id)
                for taker in self._readers[topic_id]:
                    if taker == start or taker in came_from:
                        continue
                    came_from[taker] = (giver, topic_id)
                    if self._sizes[taker] <= limit:
                        return self._path(start, taker, came_from)
                    queue.append(taker)
        return None

    @staticmethod
    def _path(start: str, end: str, came_from: Mapping[str, tuple[str, Uuid]]) -> list[tuple[str, Uuid, str]]:
        path: list[tuple[str, Uuid, str]] = []
        at = end
        while at != start:
            giver, topic_id = came_from[at]
            path.append((giver, topic_id, at))
            at = giver
        return path[::-1]
