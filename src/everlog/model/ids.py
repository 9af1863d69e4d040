"""The ids and counts that travel through the house, each with a type of its own."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, NewType

from everlog.model.errors import ConfigError

if TYPE_CHECKING:
    Offset = NewType("Offset", int)
    """Counts records in a partition; the first is 0."""

    LeaderEpoch = NewType("LeaderEpoch", int)
    """Counts the leaders a partition has had; -1 is unknown."""

    BrokerId = NewType("BrokerId", int)
    ProducerId = NewType("ProducerId", int)

    Instant = NewType("Instant", int)
    """Milliseconds on a clock that never goes back; says nothing about the time of day."""

    Timestamp = NewType("Timestamp", int)
    """Milliseconds since 1970 UTC, as records carry them; -1 is none. It may step back."""

    Uuid = NewType("Uuid", bytes)
    """Sixteen raw bytes, as on the wire; all zero is none."""
else:
    # NewType's call costs three times as much as int's, and ids are made for every batch.
    Offset = LeaderEpoch = BrokerId = ProducerId = Instant = Timestamp = int
    Uuid = bytes

NO_UUID = Uuid(bytes(16))
NO_TIMESTAMP = Timestamp(-1)
NO_EPOCH = LeaderEpoch(-1)

METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")
"""The fixed id of `__cluster_metadata`."""


def uuid_text(uuid: Uuid) -> str:
    """Return Kafka's text form: URL-safe base64 without padding, 22 characters."""
    return urlsafe_b64encode(uuid)[:22].decode("ascii")


def uuid_from_text(text: str) -> Uuid:
    """Read Kafka's text form back; anything but 22 characters of base64 is a ConfigError."""
    try:
        raw = urlsafe_b64decode(text + "==")
    except ValueError:
        raw = b""
    # The last character has four bits too many, which are 0 in what anybody has written.
    if len(text) != 22 or len(raw) != 16 or uuid_text(Uuid(raw)) != text:
        raise ConfigError(f"id {text!r} is not a UUID: expected 22 characters of URL-safe base64")
    return Uuid(raw)
