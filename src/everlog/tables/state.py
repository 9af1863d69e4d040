"""What a table remembers besides its rows; it goes with every commit, so that it lives and dies with it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from everlog.model.topics import TopicPartition
from everlog.tables.offsets import Coverage, OffsetRanges

FORMAT = 1


@dataclass(frozen=True, slots=True)
class WriterState:
    """How far a writer has come."""

    batch_id: int
    ends: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    """Where its ranges ended; its next batch goes on there."""
    covered: Coverage = field(default_factory=Coverage)
    """What its own batches have taken in; nothing where that was before it was kept."""


@dataclass(frozen=True, slots=True)
class State:
    """All that a table knows about where its rows came from."""

    writers: Mapping[str, WriterState] = field(default_factory=dict[str, WriterState])
    covered: Coverage = field(default_factory=Coverage)
    graves: str | None = None
    """Upsert: the file with the keys whose deletion must be remembered, as older records may yet come."""

    def dump(self) -> str:
        """As JSON."""
        return json.dumps(
            {
                "format": FORMAT,
                "writers": {
                    name: {
                        "batch": writer.batch_id,
                        "ends": _dump_ends(writer.ends),
                        "covered": writer.covered.dump(),
                    }
                    for name, writer in self.writers.items()
                },
                "covered": self.covered.dump(),
                "graves": self.graves,
            },
            separators=(",", ":"),
        )

    @classmethod
    def load(cls, text: str) -> "State":
        """What `dump` gave."""
        given = json.loads(text)
        return cls(
            {
                name: WriterState(
                    int(writer["batch"]),
                    {
                        TopicPartition(topic, int(partition)): int(end)
                        for topic, ends in writer["ends"].items()
                        for partition, end in ends.items()
                    },
                    Coverage.load(writer.get("covered", {})),
                )
                for name, writer in given["writers"].items()
            },
            Coverage.load(given["covered"]),
            given["graves"],
        )

    def last_batch(self, writer: str) -> int | None:
        """The id of the writer's last batch."""
        known = self.writers.get(writer)
        return None if known is None else known.batch_id

    def taken_beside(self, writer: str) -> Coverage:
        """What others than this writer have brought."""
        own = self.writers.get(writer)
        taken = self.covered if own is None else self.covered.without(own.covered)
        for name, other in self.writers.items():
            if name != writer:
                # Two writers may have covered the same: the rows came from the first.
                taken = taken.with_all(other.covered)
        return taken

    def joined(self, writer: str, seen: OffsetRanges) -> OffsetRanges:
        """Ranges of rows, grown down to where the writer's last batch ended.

        What lies between was read and held no row: markers of transactions, records that compaction removed.
        """
        known = self.writers.get(writer)
        if known is None:
            return seen
        return OffsetRanges(
            {
                place: (min(start, known.ends.get(place, start)), end)
                for place, (start, end) in seen.spans.items()
            }
        )

    def after(self, writer: str, batch_id: int, ranges: OffsetRanges, graves: str | None) -> "State":
        """The state once a batch is in."""
        known = self.writers.get(writer)
        assert known is None or batch_id > known.batch_id, (writer, batch_id)
        ends = dict(known.ends) if known is not None else {}
        for place, (_, end) in ranges.spans.items():
            ends[place] = max(end, ends.get(place, end))
        own = Coverage() if known is None else known.covered
        writers = {**self.writers, writer: WriterState(batch_id, ends, own.plus(ranges))}
        return replace(self, writers=writers, covered=self.covered.plus(ranges), graves=graves)


def _dump_ends(ends: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    dumped: dict[str, dict[str, int]] = {}
    for place, end in sorted(ends.items()):
        dumped.setdefault(place.topic, {})[str(place.partition)] = end
    return dumped
