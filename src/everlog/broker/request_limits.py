"""How many elements a request may have: topics, partitions, names and tagged fields, at every depth of it.

A request is decoded, decided on and answered in one turn of the loop, so this bounds how long it keeps others
waiting: to a quarter of a second, and most to far less. Answers, and what a node reads from its own logs, are
not limited by it.
"""

from typing import Final

from everlog.wire.apis import ApiKey
from everlog.wire.codec import RequestHeader, decode_request
from everlog.wire.message import Message, Records

MOST_ELEMENTS: Final = 50_000
"""Enough for a client of some ten thousand partitions, and more than a cluster has by default."""

_DEAR: Final = 20_000
"""For what takes several microseconds a name."""

_LISTS_REPLICAS: Final = 100_000
"""For what has the replicas of each partition too, which take next to no time."""

_OTHERS: Final[dict[int, int]] = {
    ApiKey.OFFSET_FETCH: 40_000,
    ApiKey.DESCRIBE_GROUPS: _DEAR,
    ApiKey.DELETE_GROUPS: _DEAR,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _DEAR,
    ApiKey.DESCRIBE_TRANSACTIONS: _DEAR,
    ApiKey.ADD_PARTITIONS_TO_TXN: _DEAR,
    ApiKey.WRITE_TXN_MARKERS: _DEAR,
    ApiKey.FIND_COORDINATOR: _DEAR,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _LISTS_REPLICAS,
}


def most_elements(api_key: int) -> int:
    """How many elements a request of this API may have in all."""
    return _OTHERS.get(api_key, MOST_ELEMENTS)


def decode_limited(header: RequestHeader, frame: Records) -> Message:
    """Read the body of a request; one with too many elements is a ProtocolError, as all that is malformed."""
    return decode_request(header, frame, most_elements(header.api_key))
