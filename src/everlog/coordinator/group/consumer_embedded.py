"""What classic consumers put into the opaque bytes of JoinGroup and SyncGroup: subscriptions and assignments.

Both begin with an int16 version; a version that we do not know is read as the newest one that we do.
"""

from collections.abc import Iterable
from struct import Struct, error

from everlog.coordinator.group.consumer_member import Partitions, TopicIdPartition, by_topic
from everlog.metadata.image import ClusterImage
from everlog.model.dataclass import dataclass
from everlog.model.errors import CorruptDataError, ProtocolError
from everlog.wire.codec import decode_value, encode_value
from everlog.wire.messages import consumer_protocol_assignment as assignment_message
from everlog.wire.messages import consumer_protocol_subscription as subscription_message

_VERSION = Struct(">h")
_NEWEST = 3


@dataclass(frozen=True, slots=True)
class ClassicSubscription:
    """What a classic consumer said when it joined."""

    topics: frozenset[str]
    owned: Partitions
    """What it has, of topics that there are."""
    rack_id: str | None


def read_subscription(raw: bytes, image: ClusterImage) -> ClassicSubscription:
    """Read a member's metadata; CorruptDataError if that is no consumer's subscription."""
    try:
        read = decode_value(
            subscription_message.ConsumerProtocolSubscription, _version(raw), raw[_VERSION.size :]
        )
    except (ProtocolError, error) as problem:
        raise CorruptDataError(f"a consumer's subscription cannot be read: {problem}") from problem
    owned = _by_id(((one.topic, one.partitions) for one in read.owned_partitions), image)
    return ClassicSubscription(frozenset(read.topics), owned, read.rack_id)


def read_assignment(raw: bytes, image: ClusterImage, *, user_data: bool = False) -> Partitions:
    """Read an assignment; CorruptDataError if that is none of a consumer's.

    The same where it holds more than partitions, unless `user_data` says that this does not matter.
    """
    if not raw:
        # A member that has joined and not synced yet.
        return frozenset()
    try:
        read = decode_value(
            assignment_message.ConsumerProtocolAssignment, _version(raw), raw[_VERSION.size :]
        )
    except (ProtocolError, error) as problem:
        raise CorruptDataError(f"a consumer's assignment cannot be read: {problem}") from problem
    if read.user_data and not user_data:
        raise CorruptDataError("a consumer's assignment holds data of an assignor of its own")
    return _by_id(((one.topic, one.partitions) for one in read.assigned_partitions), image)


def write_assignment(partitions: Partitions, metadata: bytes, image: ClusterImage) -> bytes:
    """The partitions as an assignment, in the version of the member's own metadata."""
    topics = [
        assignment_message.TopicPartition(topic=image.topics_by_id[topic_id].name, partitions=indexes)
        for topic_id, indexes in by_topic(partitions).items()
        if topic_id in image.topics_by_id
    ]
    message = assignment_message.ConsumerProtocolAssignment(assigned_partitions=topics)
    version = _version(metadata)
    return _VERSION.pack(version) + encode_value(message, version)


def _version(raw: bytes) -> int:
    version: int = _VERSION.unpack_from(raw)[0]
    if version < 0:
        raise ProtocolError(f"the version is {version}, expected 0 or more")
    return min(version, _NEWEST)


def _by_id(topics: Iterable[tuple[str, list[int]]], image: ClusterImage) -> Partitions:
    return frozenset(
        TopicIdPartition(image.topics[name].id, index)
        for name, indexes in topics
        if name in image.topics
        for index in indexes
    )
