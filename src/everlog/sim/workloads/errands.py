"""What is done to a cluster on purpose while others work on it, and what must have come of it in the end."""

from collections.abc import Iterator
from enum import StrEnum

from everlog.metadata.image import ClusterImage, topic_resource
from everlog.sim.chance import SimRandom
from everlog.sim.script import Script
from everlog.sim.workloads.actor import Setting
from everlog.sim.workloads.near_reader import NearReader
from everlog.sim.workloads.operators import Configurer, Elder, Elector, Flipper, Leaver, Mover
from everlog.sim.workloads.passing import TopicGuest, TopicKeeper


class Errand(StrEnum):
    """A kind of change, or of reading, that not every run has."""

    MOVE = "move"
    """Partitions get other replicas, more or fewer."""
    EMPTY = "empty"
    """Brokers are emptied."""
    ELECT = "elect"
    """Preferred leaders are elected."""
    FLIP = "flip"
    """Leaders change all the time, and all stay in sync."""
    CONFIGURE = "configure"
    """Settings of a topic change."""
    PASS = "pass"
    """A topic is made, grows, is deleted and made again."""
    VOTERS = "voters"
    """Voters of the quorum are added and removed."""
    READ_NEAR = "read near"
    """A consumer reads from followers in its rack."""


def rack_of(node_id: int) -> str:
    """The rack of a node."""
    return f"rack{node_id % 3}"


def scripts_of(
    errand: Errand, setting: Setting, chance: SimRandom, controllers_port: int
) -> Iterator[tuple[str, Script[None]]]:
    """Who sees to an errand, by the names under which they can be left out of a run."""
    name = str(errand)
    match errand:
        case Errand.MOVE:
            yield name, Mover(name, setting, chance).script()
        case Errand.EMPTY:
            yield name, Leaver(name, setting, chance).script()
        case Errand.ELECT:
            yield name, Elector(name, setting, chance).script()
        case Errand.FLIP:
            yield name, Flipper(name, setting, chance).script()
        case Errand.CONFIGURE:
            yield name, Configurer(name, setting, chance).script("log")
        case Errand.PASS:
            yield name, TopicKeeper(name, setting, chance).script("passing")
            yield "guest", TopicGuest("guest", setting, chance.fork("guest")).script("passing")
        case Errand.VOTERS:
            yield name, Elder(name, setting, chance).script(controllers_port)
        case Errand.READ_NEAR:
            reader = NearReader(name, setting, chance)
            reader.rack = rack_of(chance.below(3))
            yield name, reader.script(setting.topics["log"], read_committed=chance.happens(50))


def unmet(setting: Setting, image: ClusterImage) -> Iterator[str]:
    """What was acknowledged and is not so."""
    for topic_id in sorted(setting.deleted):
        if topic_id in image.topics_by_id:
            yield f"the topic with id {topic_id.hex()} was deleted and is there"
    for (topic, key), value in setting.configured.items():
        found = image.config(topic_resource(topic)).get(key)
        if value is not None and found != value:
            yield f"{key} of {topic} was set to {value} and is {found}"
    for known in setting.topics.values():
        found_topic = image.topics_by_id.get(known.id)
        if found_topic is None or len(found_topic.partitions) < known.partitions:
            yield f"{known.known_as} was made with {known.partitions} partitions and is {found_topic}"
