"""The topics of the cluster, as groups see them: by name and by pattern, and a hash that tells of changes."""

from collections.abc import Iterable
from hashlib import blake2b

from everlog.coordinator.group.regex import matching
from everlog.metadata.image import ClusterImage, TopicImage
from everlog.model.topics import INTERNAL_TOPICS

_MAX_HASHES = 1000


class TopicView:
    """One image of the cluster, with what was worked out from it. Another image needs another view."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self._hashes: dict[frozenset[str], int] = {}
        self._matches: dict[str, frozenset[str]] = {}

    @property
    def version(self) -> int:
        """The end of the metadata log that the image was made from."""
        return self.image.end_offset

    def existing(self, names: Iterable[str]) -> list[TopicImage]:
        """Those of the topics that there are, in the order of their names."""
        topics = self.image.topics
        return [topics[name] for name in sorted(names) if name in topics]

    def matching(self, pattern: str) -> frozenset[str]:
        """The topics that a pattern stands for; Refused if it is none. Internal topics are left out."""
        found = self._matches.get(pattern)
        if found is None:
            names = (name for name in self.image.topics if name not in INTERNAL_TOPICS)
            found = self._matches[pattern] = matching(pattern, names)
        return found

    def hash(self, names: frozenset[str]) -> int:
        """A number that differs when a topic of these is made, deleted, made anew or gets partitions."""
        found = self._hashes.get(names)
        if found is None:
            if len(self._hashes) >= _MAX_HASHES:
                self._hashes.clear()
            found = self._hashes[names] = _hash(self.existing(names))
        return found


def _hash(topics: list[TopicImage]) -> int:
    if not topics:
        return 0
    digest = blake2b(digest_size=8)
    for topic in topics:
        # Names hold no blanks, ids have one length: two different lists never give the same bytes.
        digest.update(f"{topic.name} {len(topic.partitions)} ".encode() + topic.id)
    return int.from_bytes(digest.digest(), "big", signed=True)
