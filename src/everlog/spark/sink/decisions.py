"""The log of decisions: the last one of each query, found without reading what others have decided (D2).

A decision is a record in a compacted topic; the place of a query's last one is an offset that a group of its
own has committed. Both are one transaction of the driver, so whoever reads the group's offset, waiting for a
transaction that may still change it, knows what is decided, and no other query's transaction is in the way.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any, cast

from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.topics import NewTopic
from everlog.client.core.errors import Fenced, TimedOut, TransactionFailed
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.sync.admin import Admin
from everlog.client.sync.consumer import Consumer
from everlog.client.sync.producer import Producer
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.spark.sink.errors import SinkFailed
from everlog.spark.sink.names import DECISIONS, decider_id, pointer_group
from everlog.spark.sink.options import SinkOptions
from everlog.spark.sink.protocol import Decision
from everlog.spark.sink.steps import reached

_PARTITIONS = 4
_READ_S = 30.0
_PROGRESS_S = 10.0
"""How long a group may take over offsets. A topic that it does not know it goes on looking for."""
_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
_CONFIGS = {"cleanup.policy": "compact"}


def create_decisions(admin: Admin) -> None:
    """Create the topic of decisions, if it is not there."""
    try:
        admin.create_topics([NewTopic(DECISIONS, _PARTITIONS, configs=_CONFIGS)])
    except Refused as error:
        codes = error.errors.values() if isinstance(error, ItemsRefused) else [error]
        if any(one.code is not ErrorCode.TOPIC_ALREADY_EXISTS for one in codes):
            raise


def decided_batch(admin: Admin, query: str) -> int | None:
    """The last batch of a query that is known to be decided; a decision under way is not waited for."""
    found = _pointer(admin, query, stable=False)
    return None if found is None else found[1]


def is_announced(admin: Admin, query: str) -> bool:
    """Whether a batch write without a name is being committed, or was: its driver has taken its id."""
    try:
        return bool(admin.describe_transactions([decider_id(query)]))
    except ItemsRefused as error:
        if any(one.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND for one in error.errors.values()):
            raise
        return False


def last_decision(admin: Admin, options: SinkOptions, query: str) -> Decision | None:
    """The last decision of a query; one that is being made is waited for, TimedOut if for too long."""
    found = _pointer(admin, query, stable=True)
    if found is None:
        return _search(options, query)
    place, _, offset = found
    decision = _read_at(options, place, offset, query)
    if decision is None:
        raise SinkFailed(
            f"the decision of query {query} is not at offset {offset} of {place}, where the group "
            f"{pointer_group(query)!r} has it: the topic was deleted or changed by others"
        )
    return decision


def decision_place(producer: Producer, query: str) -> TopicPartition:
    """Where decisions of a query go."""
    return TopicPartition(DECISIONS, zlib.crc32(query.encode()) % len(producer.partitions_for(DECISIONS)))


def write_decision(
    producer: Producer,
    place: TopicPartition,
    query: str,
    decision: Decision,
    progress: Mapping[str, Mapping[TopicPartition, int]],
) -> None:
    """Make a decision and the progress of groups durable, as one. What fails leaves neither, or both."""
    producer.begin_transaction()
    delivery = producer.send(DECISIONS, decision.to_bytes(), query.encode(), partition=place.partition)
    producer.flush()
    try:
        offset = delivery.result().offset
    except Refused as error:
        if error.code in _FENCED:
            raise Fenced(f"another process decides for query {query} since: {error}") from None
        raise
    pointer = OffsetAndMetadata(offset, json.dumps({"batch": decision.batch}))
    producer.send_offsets_to_transaction({place: pointer}, GroupMetadata(pointer_group(query)))
    for group, offsets in progress.items():
        try:
            producer.send_offsets_to_transaction(offsets, GroupMetadata(group), _PROGRESS_S)
        except (TransactionFailed, TimedOut) as error:
            raise SinkFailed(
                f"option commitGroup={group!r}: the source's offsets cannot be committed with the batch, "
                f"expected a group without members in the cluster that has the source's topics: {error}"
            ) from None
    reached("deciding")
    producer.commit_transaction()


def _pointer(admin: Admin, query: str, *, stable: bool) -> tuple[TopicPartition, int, int] | None:
    """Partition, batch and offset of the last decision."""
    offsets = admin.list_group_offsets(pointer_group(query), require_stable=stable)
    found = [
        (place, int(cast("dict[str, Any]", json.loads(entry.metadata))["batch"]), entry.offset)
        for place, entry in offsets.items()
        if place.topic == DECISIONS and entry.metadata
    ]
    # More than one only where partitions were added to the topic.
    return max(found, key=lambda entry: entry[1], default=None)


def _read_at(options: SinkOptions, place: TopicPartition, offset: int, query: str) -> Decision | None:
    # Uncommitted is right: that the offset is committed says that the record is. The last stable offset may
    # lie below it, for as long as another query decides.
    with _consumer(options, "read_uncommitted") as consumer:
        consumer.assign([place])
        consumer.seek(place, offset)
        for record in consumer.poll(_READ_S, max_records=1):
            if record.offset == offset and record.key == query.encode():
                return Decision.from_bytes(record.value or b"")
    return None


def _search(options: SinkOptions, query: str) -> Decision | None:
    """Read the whole topic, as groups forget offsets that were not changed for a week."""
    key, last = query.encode(), None
    with _consumer(options, "read_committed") as consumer, _consumer(options, "read_uncommitted") as plain:
        try:
            places = [TopicPartition(DECISIONS, one.index) for one in consumer.partitions_for(DECISIONS)]
        except Refused as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None  # the first to decide creates it
            raise
        # Up to what is written by now, committed or not: what is open is waited for.
        ends = plain.end_offsets(*places)
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        while any(consumer.position(place) < ends[place] for place in places):
            for record in consumer.poll(_READ_S):
                if record.key == key and record.value is not None:
                    found = Decision.from_bytes(record.value)
                    last = found if last is None or found.batch >= last.batch else last
    return last


def _consumer(options: SinkOptions, isolation: Any) -> Consumer:
    return Consumer(
        options.bootstrap_servers, isolation_level=isolation, auto_offset_reset="earliest", **options.admin
    )
