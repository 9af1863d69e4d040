"""Topics: create, delete, add partitions. Each topic of a command is decided on its own."""

from collections import Counter
from itertools import product

from everlog.controller.decisions import Decision, Refusal, Standing, check_not_too_many
from everlog.controller.partitions import PartitionBudget, check_placement, partition_records
from everlog.controller.placement import check_replication, place_new
from everlog.metadata.image import ClusterImage, ResourceType, TopicImage
from everlog.model.dataclass import dataclass
from everlog.model.errors import ConfigError, ErrorCode, Refused
from everlog.model.ids import Uuid, uuid_text
from everlog.model.settings import broker_table as keys
from everlog.model.settings import check_topic_overrides
from everlog.model.topics import METADATA_TOPIC, names_collide, topic_name_problem
from everlog.wire.message import Message
from everlog.wire.messages.config_record import ConfigRecord
from everlog.wire.messages.remove_topic_record import RemoveTopicRecord
from everlog.wire.messages.topic_record import TopicRecord

USE_DEFAULT = -1
_FEW_VARIANTS = 6


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that somebody wants."""

    name: str
    partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Partition and replicas, where the creator places them."""
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic as it was made, or would have been."""

    id: Uuid
    partitions: int
    replication_factor: int
    configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Make topics; the reply has one entry for each name, in order, duplicates once."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False

    def decide(self, standing: Standing) -> Decision[dict[str, TopicCreated | Refusal]]:
        """Decide on each topic alone; the limits on partitions count all that are accepted."""
        check_not_too_many(self.topics, "topics")
        times = Counter(topic.name for topic in self.topics)
        reply: dict[str, TopicCreated | Refusal] = {}
        records: list[Message] = []
        taken = _MetricNames(standing.image, len(self.topics))
        budget = PartitionBudget(standing)
        for topic in self.topics:
            try:
                if times[topic.name] > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, f"the topic {topic.name!r} is named twice")
                _check_new_name(topic.name, standing.image, taken)
                configs = _checked_configs(topic, standing)
                assignments = _assignments(topic, standing, budget)
            except Refused as refused:
                reply[topic.name] = Refusal(refused.code, str(refused))
                continue
            taken.take(topic.name)
            topic_id = standing.random.uuid()
            reply[topic.name] = TopicCreated(topic_id, len(assignments), len(assignments[0]), configs)
            records.append(TopicRecord(name=topic.name, topic_id=topic_id))
            records.extend(
                ConfigRecord(
                    resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value
                )
                for name, value in configs.items()
            )
            records.extend(partition_records(standing.image, topic_id, 0, assignments))
        return Decision(() if self.validate_only else tuple(records), reply)


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Delete topics, each named by its name or by its id; the reply has one entry for each, in order."""

    topics: tuple[str | Uuid, ...]

    def decide(self, standing: Standing) -> Decision[list[TopicImage | Refusal]]:
        """Decide on each topic alone; one that is named twice, by name or by id, stays."""
        check_not_too_many(self.topics, "topics")
        found = [_find(standing.image, topic) for topic in self.topics]
        times = Counter(topic.id for topic in found if topic is not None)
        reply: list[TopicImage | Refusal] = []
        records: list[Message] = []
        for wanted, topic in zip(self.topics, found, strict=True):
            refusal = _delete_refusal(wanted, topic, standing, times)
            if refusal is not None or topic is None:
                assert refusal is not None, wanted
                reply.append(refusal)
                continue
            records.append(RemoveTopicRecord(topic_id=topic.id))
            reply.append(topic)
        return Decision(tuple(records), reply)


class _MetricNames:
    """The names that metrics have for topics, as far as a command of so many new ones has to know them."""

    def __init__(self, image: ClusterImage, new: int) -> None:
        self._image = image
        self._new: set[str] = set()
        # For one topic it is cheaper to look for each variant of its name than to go through all topics.
        self._known = {metric_name(name): name for name in image.topics} if new > 1 else None

    def take(self, name: str) -> None:
        """Note that a topic will have this name."""
        self._new.add(metric_name(name))

    def holder(self, name: str) -> str | None:
        """Who has the name that metrics would have for a new topic, if anybody has."""
        if metric_name(name) in self._new:
            return "another new one"
        return colliding(name, self._image) if self._known is None else self._known.get(metric_name(name))


def _check_new_name(name: str, image: ClusterImage, taken: _MetricNames) -> None:
    problem = topic_name_problem(name)
    if problem is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name == METADATA_TOPIC:
        raise Refused(ErrorCode.INVALID_REQUEST, f"the topic {name!r} is the cluster's own")
    if name in image.topics:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"the topic {name!r} exists already")
    other = taken.holder(name)
    if other is not None:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"the topic {name!r} collides with {other}: metrics write '.' and '_' alike",
        )


def metric_name(name: str) -> str:
    """The name as metrics have it; no two topics may share one."""
    return name.replace(".", "_")


def colliding(name: str, image: ClusterImage) -> str | None:
    """A topic whose name differs from `name` by '.' for '_' only, if there is one."""
    places = name.count(".") + name.count("_")
    if places == 0:
        return None
    if places > _FEW_VARIANTS:
        return next((one for one in image.topics if one != name and names_collide(one, name)), None)
    parts = name.replace(".", "_").split("_")
    for dividers in product("._", repeat=places):
        variant = parts[0] + "".join(map(str.__add__, dividers, parts[1:]))
        if variant != name and variant in image.topics:
            return variant
    return None


def _checked_configs(topic: NewTopic, standing: Standing) -> dict[str, str]:
    configs: dict[str, str] = {}
    for name, value in topic.configs:
        if value is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"{name} of topic {topic.name!r} has no value")
        if name in configs:
            raise Refused(ErrorCode.INVALID_CONFIG, f"{name} of topic {topic.name!r} is given twice")
        configs[name] = value
    try:
        check_topic_overrides(configs, standing.layers)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None
    return configs


def _assignments(topic: NewTopic, standing: Standing, budget: PartitionBudget) -> list[tuple[int, ...]]:
    if topic.assignments:
        assignments = _placed_by_hand(topic, standing.image)
        budget.take(topic.name, len(assignments))
        return assignments
    partitions, factor = topic.partitions, topic.replication_factor
    if factor < USE_DEFAULT or factor == 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor of {topic.name!r} is {factor}, expected 1 or more, or -1",
        )
    if partitions < USE_DEFAULT or partitions == 0:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"the partitions of {topic.name!r} are {partitions}, expected at least 1, or -1 for the default",
        )
    if partitions == USE_DEFAULT:
        partitions = standing.settings[keys.NUM_PARTITIONS]
    if factor == USE_DEFAULT:
        factor = standing.settings[keys.DEFAULT_REPLICATION_FACTOR]
    check_replication(standing.image, factor)
    budget.take(topic.name, partitions)
    return place_new(standing.image, partitions, factor, standing.random)


def _placed_by_hand(topic: NewTopic, image: ClusterImage) -> list[tuple[int, ...]]:
    if topic.partitions != USE_DEFAULT or topic.replication_factor != USE_DEFAULT:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"the topic {topic.name!r} places replicas by hand, so its partitions and replication factor "
            "must be -1",
        )
    placed = dict(topic.assignments)
    if len(placed) != len(topic.assignments) or sorted(placed) != list(range(len(placed))):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"the topic {topic.name!r} places partitions {sorted(one for one, _ in topic.assignments)}, "
            "expected 0, 1, 2 and so on, each once",
        )
    factor = len(placed[0])
    for number in range(len(placed)):
        check_placement(placed[number], factor, image)
    return [placed[number] for number in range(len(placed))]


def _find(image: ClusterImage, topic: str | Uuid) -> TopicImage | None:
    return image.topics.get(topic) if isinstance(topic, str) else image.topics_by_id.get(topic)


def _delete_refusal(
    wanted: str | Uuid, topic: TopicImage | None, standing: Standing, times: Counter[Uuid]
) -> Refusal | None:
    shown = repr(wanted) if isinstance(wanted, str) else f"with id {uuid_text(wanted)}"
    if not standing.settings[keys.DELETE_TOPIC_ENABLE]:
        return Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    if topic is None:
        unknown = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if isinstance(wanted, str) else ErrorCode.UNKNOWN_TOPIC_ID
        )
        return Refusal(unknown, f"there is no topic {shown}")
    if times[topic.id] > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, f"the topic {shown} is named twice")
    return None
