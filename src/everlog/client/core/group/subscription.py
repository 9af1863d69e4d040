"""What members of a classic group tell each other through the coordinator: subscriptions, assignments (C3).

Both are an int16 version, then the message. The coordinator does not look into them, so what other clients
have put there may be anything; what cannot be read counts as nothing.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from everlog.client.core.group.types import NO_GENERATION
from everlog.model.errors import ProtocolError
from everlog.model.topics import TopicPartition
from everlog.wire.codec import decode_value, encode_value
from everlog.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from everlog.wire.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from everlog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from everlog.wire.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic

_VERSION_BYTES = 2
_NEWEST_SUBSCRIPTION = 3
_NEWEST_ASSIGNMENT = 3
WRITTEN_ASSIGNMENT = 0
"""What we write: later versions have added nothing, and every client reads it."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member wants to read and what it has; what its version does not say is at its default."""

    topics: Sequence[str] = ()
    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION
    """In which it got what it owns."""
    rack: str | None = None
    user_data: bytes = b""
    """What its assignor says to that of the leader."""


def write_subscription(
    topics: Collection[str],
    *,
    owned: Iterable[TopicPartition] = (),
    generation: int = NO_GENERATION,
    rack: str | None = None,
    user_data: bytes | None = None,
) -> bytes:
    """A subscription as JoinGroup carries it."""
    message = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=[
            OwnedTopic(topic=topic, partitions=partitions) for topic, partitions in by_topic(owned).items()
        ],
        generation_id=generation,
        rack_id=rack,
    )
    return _NEWEST_SUBSCRIPTION.to_bytes(_VERSION_BYTES, "big") + encode_value(message, _NEWEST_SUBSCRIPTION)


def read_subscription(data: bytes) -> Subscription:
    """A subscription as a member of any client wrote it."""
    version = _version(data, _NEWEST_SUBSCRIPTION)
    if version is None:
        return Subscription()
    try:
        message = decode_value(ConsumerProtocolSubscription, version, data[_VERSION_BYTES:])
    except ProtocolError:
        return Subscription()
    return Subscription(
        tuple(sorted(message.topics)),
        tuple(
            TopicPartition(topic.topic, partition)
            for topic in message.owned_partitions
            for partition in topic.partitions
        ),
        message.generation_id,
        message.rack_id,
        message.user_data or b"",
    )


def write_assignment(places: Iterable[TopicPartition]) -> bytes:
    """An assignment as SyncGroup carries it."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignedTopic(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(places).items()
        ]
    )
    return WRITTEN_ASSIGNMENT.to_bytes(_VERSION_BYTES, "big") + encode_value(message, WRITTEN_ASSIGNMENT)


def read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions that a leader of any client has given to a member, in order."""
    version = _version(data, _NEWEST_ASSIGNMENT)
    if version is None:
        return ()
    try:
        message = decode_value(ConsumerProtocolAssignment, version, data[_VERSION_BYTES:])
    except ProtocolError:
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic, partition)
            for topic in message.assigned_partitions
            for partition in topic.partitions
        )
    )


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, both in order."""
    topics: dict[str, list[int]] = {}
    for place in sorted(places):
        topics.setdefault(place.topic, []).append(place.partition)
    return topics


def _version(data: bytes, newest: int) -> int | None:
    """The version of a message, or the newest that we know if it is newer; None if there is no message."""
    if len(data) < _VERSION_BYTES:
        return None
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    return None if version < 0 else min(version, newest)
