"""The sticky assignors: even shares, and members keep as much as they can of what they have.

`sticky` is eager: members own nothing while the group rebalances, so each says in bytes of the assignor's own
what it had. `cooperative-sticky` goes by what members say that they own.
"""

from collections.abc import Mapping, Sequence
from struct import Struct, error

from everlog.client.core.group.assignors import BOTH_PROTOCOLS, EAGER_ONLY, AssignedMember, Layout
from everlog.client.core.group.types import NO_GENERATION
from everlog.model.even_shares import Reader, share_evenly
from everlog.model.topics import TopicPartition

_INT32 = Struct(">i")
_LENGTH = Struct(">h")

Claim = tuple[frozenset[TopicPartition], int]
"""What a member says that it had or has, and in which generation."""


class StickyAssignor:
    """`sticky`: Kafka's eager assignor that moves little."""

    name = "sticky"
    protocols = EAGER_ONLY

    def assign(
        self, members: Mapping[str, AssignedMember], topics: Layout
    ) -> dict[str, list[TopicPartition]]:
        """Share out evenly, starting from what members had."""
        return _share_out(
            members, {each: read_had(member.user_data) for each, member in members.items()}, topics
        )

    def user_data(
        self, topics: Sequence[str], had: Sequence[TopicPartition], generation: int
    ) -> bytes | None:
        """What this member had; nothing before it had any."""
        return write_had(had, generation) if generation != NO_GENERATION else None


class CooperativeStickyAssignor:
    """`cooperative-sticky`: members go on reading what stays theirs (KIP-429)."""

    name = "cooperative-sticky"
    protocols = BOTH_PROTOCOLS

    def assign(
        self, members: Mapping[str, AssignedMember], topics: Layout
    ) -> dict[str, list[TopicPartition]]:
        """Share out evenly, starting from what members own."""
        claims = {each: (member.owned, _generation(member)) for each, member in members.items()}
        return _share_out(members, claims, topics)

    def user_data(
        self, topics: Sequence[str], had: Sequence[TopicPartition], generation: int
    ) -> bytes | None:
        """The generation, for leaders that do not read it from the subscription."""
        return _INT32.pack(generation)


def _share_out(
    members: Mapping[str, AssignedMember], claims: Mapping[str, Claim], topics: Layout
) -> dict[str, list[TopicPartition]]:
    latest: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id in sorted(claims):
        places, generation = claims[member_id]
        for place in places:
            known = latest.get(place)
            if known is None or generation > known[0]:
                latest[place] = (generation, member_id)
            elif generation == known[0]:
                # Two that claim it in the same generation cannot both be right; neither is believed.
                latest[place] = (generation, None)
    had: dict[str, set[tuple[str, int]]] = {member_id: set() for member_id in members}
    for place, (_, owner) in latest.items():
        if owner is not None:
            had[owner].add(place)
    readers = {member_id: Reader(member.topics, had[member_id]) for member_id, member in members.items()}
    counts = {topic: len(racks) for topic, racks in topics.items()}
    return {
        member_id: sorted(TopicPartition(*one) for one in share)
        for member_id, share in share_evenly(readers, counts).items()
    }


def _generation(member: AssignedMember) -> int:
    if member.generation != NO_GENERATION or len(member.user_data) < _INT32.size:
        return member.generation
    generation: int = _INT32.unpack_from(member.user_data)[0]
    return generation


def write_had(had: Sequence[TopicPartition], generation: int) -> bytes:
    """What a member had, as Kafka's sticky assignor writes it."""
    by_topic: dict[str, list[int]] = {}
    for place in sorted(had):
        by_topic.setdefault(place.topic, []).append(place.partition)
    written = bytearray(_INT32.pack(len(by_topic)))
    for topic, partitions in by_topic.items():
        name = topic.encode()
        written += _LENGTH.pack(len(name)) + name + _INT32.pack(len(partitions))
        for partition in partitions:
            written += _INT32.pack(partition)
    return bytes(written + _INT32.pack(generation))


def read_had(raw: bytes) -> Claim:
    """Read it back. What cannot be read counts as nothing; the first version had no generation."""
    try:
        (count,) = _INT32.unpack_from(raw)
        at = _INT32.size
        places: set[TopicPartition] = set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(raw, at)
            at += _LENGTH.size
            topic = raw[at : at + length].decode()
            at += length
            (size,) = _INT32.unpack_from(raw, at)
            at += _INT32.size
            if not 0 <= size <= len(raw) // _INT32.size:
                return frozenset(), NO_GENERATION
            places.update(
                TopicPartition(topic, _INT32.unpack_from(raw, at + index * _INT32.size)[0])
                for index in range(size)
            )
            at += size * _INT32.size
        generation = _INT32.unpack_from(raw, at)[0] if len(raw) >= at + _INT32.size else NO_GENERATION
    except (error, UnicodeDecodeError):
        return frozenset(), NO_GENERATION
    return frozenset(places), generation
