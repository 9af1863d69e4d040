"""Bits that change on the disks of a cluster, as many as nothing may be lost by.

Of the copies of a partition at most one rots in a run, and only while two others that are in sync have all of
it: bit rot that hits a minority of a record's copies must not lose it. It may be noticed at the next start,
when the record is read, or never.
"""

from typing import TYPE_CHECKING

from everlog.sim.chance import SimRandom
from everlog.sim.quorum_ghosts import Place

if TYPE_CHECKING:
    from everlog.sim.cluster_world import ClusterWorld
    from everlog.sim.machine import Machine

LEAST_OTHERS = 2
"""How many others must have all of a partition for one of its copies to rot."""
_METADATA = "/__cluster_metadata-"


class Rot:
    """Where disks have rotted."""

    def __init__(self, world: "ClusterWorld") -> None:
        self._world = world

    def may_hit(self, machine: "Machine") -> list[Place]:
        """The partitions whose copy on a machine may rot now."""
        ghosts = self._world.ghosts
        return [
            place
            for place, partition in ghosts.images.seen.items()
            if machine.node_id in partition.replicas
            and ghosts.rotted.get(place, machine.node_id) == machine.node_id
            and len(ghosts.whole_copies(place, but=machine.node_id)) >= LEAST_OTHERS
        ]

    def hit(self, machine: "Machine", places: list[Place], chance: SimRandom) -> str | None:
        """Change a bit in a log of one of the partitions, whose node is down; returns which file, if any."""
        image = self._world.ghosts.images.newest
        assert image is not None
        found: list[tuple[str, int, Place]] = []
        for path, data in sorted(machine.files.tree().items()):
            topic, _, number = path.rsplit("/", 2)[-2].rpartition("-")
            known = image.topics.get(topic)
            if data and path.endswith(".log") and _METADATA not in path and known and number.isdigit():
                place = (known.id, int(number))
                if place in places:
                    found.append((path, len(data), place))
        if not found:
            return None
        rotten, size, where = chance.pick(found)
        machine.files.flip_bit(rotten, chance.below(size), chance.below(8))
        self._world.ghosts.rotted[where] = machine.node_id
        return rotten
