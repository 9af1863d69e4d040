"""Every message of the protocol, as data in one text notation; a module a family, nothing but text in it.

No code for a single message lives here: its class is in `wire.messages`, its codec is made from this text.
`wire.codec` reads one message when it is first used, `wire.generate` reads all of them.
The text says what Kafka 4.4 has on the wire and nothing about what it means.

    MetadataRequest: request 3, versions 0-13, flexible 9+, on broker
        topics: [MetadataRequestTopic]?1+
            topic_id: uuid 10+ ignorable
            name: string?10+
        allow_auto_topic_creation: bool 4+ = true

A line at the margin opens a message: its name, what it is (`request`, `response` with the API key; `record`,
`key`, `value` with the type id in its log; `data`, `header`), the versions there are, the first flexible
version if any, `last unstable` where the last one is not advertised, and for a request who listens for it.

A line below it is a field, four spaces deeper than what holds it, in this order:

    name: type       bool int8 int16 int32 int64 uint16 uint32 float64 string bytes records uuid, a struct, or
                     an array of one of these in brackets
    ?                right after the type: may be null; `?7+` only from version 7 on
    4+  4-7  4       the versions that have the field; without it, all that have what holds it
    tag 0            a tagged field with this number
    classic          a string that keeps its int16 length in flexible versions too
    ignorable        dropped when a version without the field is written; others must be at default then
    = -1             the default; without it 0, false, empty, or for a struct its own defaults

A struct's fields stand below the field that first names it; later fields of the message just name it.
"""

from functools import cache
from importlib import import_module

from everlog.wire.schema import Schema, SchemaError, parse, split

FAMILIES = (
    "connections",
    "partitions",
    "groups",
    "transactions",
    "topics",
    "configs",
    "security",
    "cluster",
    "quorum",
    "shares",
    "metadata_records",
    "coordinator_records",
)


@cache
def _blocks(family: str) -> dict[str, str]:
    text: str = import_module(f"{__name__}.{family}").TEXT
    return split(text)


def find(family: str, name: str) -> Schema:
    """Return the schema of one message; a name that is not in the family is a SchemaError."""
    block = _blocks(family).get(name)
    if block is None:
        raise SchemaError(f"family {family} has no message {name}")
    return parse(block)


def all_schemas() -> list[tuple[str, Schema]]:
    """Return every message with its family, in the order of the text."""
    return [(family, parse(block)) for family in FAMILIES for block in _blocks(family).values()]
