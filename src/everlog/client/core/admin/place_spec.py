"""Which partitions, as people write it: `orders` is all of a topic's, `orders:0,2` some of them."""

from collections.abc import Iterable

from everlog.model.errors import ConfigError


def parse_places(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Read specs into partitions by topic, None being all of them; ConfigError says what was expected.

    A topic may be named more than once, with some of its partitions each time.
    """
    wanted: dict[str, list[int] | None] = {}
    for text in texts:
        topic, indexes = _parse_one(text)
        before = wanted.get(topic, [])
        wanted[topic] = None if indexes is None or before is None else sorted({*before, *indexes})
    return wanted


def _parse_one(text: str) -> tuple[str, list[int] | None]:
    topic, colon, listed = text.partition(":")
    parts = [part.strip() for part in listed.split(",")] if colon else []
    if not topic or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"topic {text!r} cannot be read: expected TOPIC or TOPIC:PARTITION[,PARTITION…]")
    return topic, [int(part) for part in parts] if colon else None
