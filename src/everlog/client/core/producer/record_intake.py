"""From what a user sends to a line in the accumulator: serializers, then the partition (P1)."""

from collections.abc import Callable
from typing import Any, cast

from everlog.client.core import surroundings
from everlog.client.core.errors import UnsendableType, refusal
from everlog.client.core.producer.accumulator import Accumulator, HeaderPairs, TopicQueues
from everlog.client.core.producer.delivery import Delivery, OnDelivery
from everlog.client.core.producer.partition_queue import PartitionQueue
from everlog.client.core.producer.partitioner import (
    LoadedPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
    partition_of_key,
)
from everlog.client.core.producer.settings import MURMUR2, ROUND_ROBIN, ProducerSettings
from everlog.model.errors import ErrorCode
from everlog.ports.files import Buffer
from everlog.records.short_way import ShortWay, short_way

Choose = Callable[[TopicQueues, Buffer | None, Buffer | None], int]


class RecordIntake:
    """Takes records of known topics. Any thread may call it."""

    def __init__(self, settings: ProducerSettings, accumulator: Accumulator) -> None:
        self.topics = accumulator.topics
        self._append = accumulator.append
        self._serialize_key = settings.key_serializer
        self._serialize_value = settings.value_serializer
        self._choose = _chooser(settings, accumulator)

    def topic(self, name: str) -> TopicQueues | None:
        """What is known of a topic; UnsendableType if that is no name."""
        try:
            known = self.topics.get(name)
        except TypeError:
            known = None
        if known is None and not isinstance(cast(object, name), str):
            raise UnsendableType(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"a record for topic {name!r}: expected its name, a str"
            )
        return known

    def serialize(self, value: Any, key: Any) -> tuple[Buffer | None, Buffer | None]:
        """Make bytes of a value and a key."""
        if value is not None and self._serialize_value is not None:
            value = self._serialize_value(value)
        if key is not None and self._serialize_key is not None:
            key = self._serialize_key(key)
        return value, key

    def route(
        self, topic: TopicQueues, key: Buffer | None, value: Buffer | None, partition: int | None
    ) -> PartitionQueue:
        """The line of a record's partition; Refused if there is no such partition.

        UnsendableType if it is no number.
        """
        chosen = self._choose(topic, key, value) if partition is None else partition
        try:
            if 0 <= chosen < len(topic.queues):
                return topic.queues[chosen]
        except TypeError:
            whose = "partition is" if partition is not None else "the partitioner chose"
            raise UnsendableType(
                ErrorCode.INVALID_RECORD,
                f"a record for {topic.name}: {whose} {chosen!r}: expected a number from 0 to "
                f"{len(topic.queues) - 1}",
            ) from None
        raise refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"expected a partition from 0 to {len(topic.queues) - 1}",
            f"{topic.name}-{chosen}",
        )

    def add(
        self,
        topic: TopicQueues,
        queue: PartitionQueue,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeaderPairs,
        timestamp: int,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery | None:
        """Put a record into its line; None if there is no room."""
        return self._append(topic, queue, key, value, headers, timestamp, on_delivery)


def _chooser(settings: ProducerSettings, accumulator: Accumulator) -> Choose:
    if settings.partitioner == MURMUR2:
        return _by_key(_WithoutKey(settings, accumulator), ignores_keys=settings.partitioner_ignore_keys)
    if settings.partitioner == ROUND_ROBIN:
        turns = RoundRobinPartitioner()
        return lambda topic, key, value: turns.pick(topic.name, topic.led)
    custom = settings.partitioner

    def choose(topic: TopicQueues, key: Buffer | None, value: Buffer | None) -> int:
        chosen: int = custom(topic.name, key, value, range(len(topic.queues)))
        return chosen

    return choose


def _by_key(choose_without: Choose, *, ignores_keys: bool) -> Choose:
    if ignores_keys:
        return choose_without

    def choose(topic: TopicQueues, key: Buffer | None, value: Buffer | None) -> int:
        if key is None:
            return choose_without(topic, key, value)
        try:
            return partition_of_key(key if type(key) is bytes else bytes(memoryview(key)), len(topic.queues))
        except TypeError:
            return 0  # No key at all: the record is refused, with words, where it is encoded.

    return choose


class _WithoutKey:
    """Chooses partitions for records without a key, and has those that follow go there the short way."""

    def __init__(self, settings: ProducerSettings, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._loaded = LoadedPartitioner(settings.batch_size, surroundings.chance.randrange)
        self._sticky = StickyPartitioner(settings.batch_size, surroundings.chance.randrange)
        self._is_adaptive = settings.partitioner_adaptive_partitioning_enable

    def __call__(self, topic: TopicQueues, key: Buffer | None, value: Buffer | None) -> int:
        queues = topic.queues
        try:
            size = (0 if key is None else len(key)) + (0 if value is None else len(value)) + 10
        except TypeError:
            size = 0  # No record at all: it is refused, with words, where it is encoded.
        if topic.stuck is not None:
            size += self._accumulator.gone_short(topic.stuck)
        if self._is_adaptive:
            chosen = self._loaded.pick(topic.name, topic.led, lambda index: queues[index].waiting_bytes, size)
            is_spent = self._loaded.is_spent(topic.name)
        else:
            chosen = self._sticky.pick(topic.name, topic.led, size)
            is_spent = self._sticky.is_spent(topic.name)
        short_way, inlet = self._accumulator.short_way, queues[chosen].inlet
        if short_way is not None and inlet is not None:
            topic.stuck = queues[chosen]
            if is_spent:
                short_way.unstick(topic.name)
            else:
                short_way.stick(topic.name, inlet)
        return chosen


def short_way_of(settings: ProducerSettings, long_way: Callable[..., Delivery | None]) -> ShortWay | None:
    """A short way beside `send`, if one is compiled and the settings leave nothing to do for each record."""
    if settings.key_serializer is not None or settings.value_serializer is not None:
        return None
    if settings.transactional_id is not None or settings.partitioner_ignore_keys:
        return None
    return short_way(long_way, Delivery, hashes_keys=settings.partitioner == MURMUR2)
