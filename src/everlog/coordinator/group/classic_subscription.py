"""What a consumer says about itself when it joins, as far as the coordinator looks into it."""

from struct import Struct, error

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in a consumer's subscription, which begins alike in all versions; None if it is none."""
    try:
        _, count = _HEAD.unpack_from(metadata)
        at = _HEAD.size
        if not 0 <= count <= (len(metadata) - at) // _LENGTH.size:
            return None
        topics: set[str] = set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, at)
            at += _LENGTH.size
            if not 0 <= length <= len(metadata) - at:
                return None
            topics.add(metadata[at : at + length].decode())
            at += length
    except (error, UnicodeDecodeError):
        return None
    return frozenset(topics)


def wants_the_same(old: bytes, new: bytes, *, consumers: bool) -> bool:
    """Whether a member that came back can have the assignment that it had.

    Consumers also say which partitions they have, and that they forget over a restart: their topics count.
    """
    if old == new:
        return True
    topics = subscribed_topics(old) if consumers else None
    return topics is not None and topics == subscribed_topics(new)
