"""ListOffsets, versions 1 to 11.

2 brings isolation, 4 leader epochs, 6 is flexible, 7 asks for the largest timestamp, 8 for the earliest local
offset, 9 for the latest tiered one, 10 brings a time-out, 11 the earliest that waits to be tiered.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from everlog.broker.exchange import Exchange
from everlog.broker.leader_hints import elsewhere
from everlog.broker.leadership import check_leads
from everlog.broker.replicas import Replica
from everlog.broker.time_lookups import Wanted, when_known
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.model.ids import Offset, Timestamp
from everlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_READ_COMMITTED = 1
_FIRST_WITH_EPOCHS = 4
_FIRST_WITH_NOT_AVAILABLE = 5


class _Found(NamedTuple):
    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


_NOTHING = _Found(-1)
_DOUBLE = partial(ListOffsetsPartitionResponse, error_code=ErrorCode.INVALID_REQUEST)
"""What Kafka answers for a partition that is named twice."""


def handle(broker: "Broker", request: ListOffsetsRequest, exchange: Exchange) -> None:
    """Answer the offset of each partition, named once, for what was asked: a special name, or a moment."""
    doubles = _named_twice(request)
    by_time = [
        found
        for topic in request.topics
        for wanted in topic.partitions
        if wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP
        if (topic.name, wanted.partition_index) not in doubles
        if (found := _wanted(broker, topic.name, wanted)) is not None
    ]
    if by_time:
        when_known(broker.slices, by_time, partial(_answer, broker, request, exchange, doubles))
    else:
        _answer(broker, request, exchange, doubles)


def _named_twice(request: ListOffsetsRequest) -> set[tuple[str, int]]:
    times = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    return {partition for partition, count in times.items() if count > 1}


def _wanted(broker: "Broker", topic: str, wanted: ListOffsetsPartition) -> Wanted | None:
    """Where a lookup by time will look; None where it will be refused."""
    replica = broker.replicas.get(topic, wanted.partition_index)
    if replica is None or not replica.leads:
        return None
    try:
        log = replica.opened()
    except StorageError:
        return None
    return log, Timestamp(wanted.timestamp) if wanted.timestamp >= 0 else None


def _answer(
    broker: "Broker", request: ListOffsetsRequest, exchange: Exchange, doubles: set[tuple[str, int]]
) -> None:
    if exchange.abandoned:
        return
    read_committed = request.isolation_level == _READ_COMMITTED
    exchange.answer(
        ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        _DOUBLE(partition_index=wanted.partition_index)
                        if (topic.name, wanted.partition_index) in doubles
                        else _answer_one(broker, topic.name, wanted, read_committed, exchange.api_version)
                        for wanted in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
    )


def _answer_one(
    broker: "Broker", topic: str, wanted: ListOffsetsPartition, read_committed: bool, version: int
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    replica = broker.replicas.get(topic, index)
    if replica is None:
        return ListOffsetsPartitionResponse(
            partition_index=index, error_code=elsewhere(broker, topic, index).code
        )
    try:
        check_leads(replica, wanted.current_leader_epoch)
        found = _find(replica, wanted.timestamp, read_committed)
    except Refused as refused:
        code = refused.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _FIRST_WITH_NOT_AVAILABLE:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
    except CorruptDataError as error:
        broker.found_corruption(replica, error)
        return ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    except StorageError:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        offset=found.offset,
        timestamp=found.timestamp,
        leader_epoch=found.leader_epoch if version >= _FIRST_WITH_EPOCHS else -1,
    )


def _find(replica: Replica, timestamp: int, read_committed: bool) -> _Found:
    if timestamp >= 0:
        return _at_time(replica, timestamp, read_committed)
    special = _SPECIAL.get(timestamp)
    if special is None:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"the timestamp {timestamp} is neither a moment nor one of {sorted(_SPECIAL, reverse=True)}",
        )
    return special(replica, read_committed)


def _at_time(replica: Replica, timestamp: int, read_committed: bool) -> _Found:
    visible = replica.last_stable_offset if read_committed else replica.high_watermark
    found = replica.opened().offset_for_time(Timestamp(timestamp), Offset(visible))
    if found is None:
        _check_known(replica)
        return _NOTHING
    return _Found(found.offset, found.timestamp, found.leader_epoch)


def _latest(replica: Replica, read_committed: bool) -> _Found:
    offset = replica.last_stable_offset if read_committed else replica.high_watermark
    _check_known(replica)
    return _Found(offset, leader_epoch=replica.leader_epoch)


def _check_known(replica: Replica) -> None:
    """Refuse while a new leader does not know yet how much of what it found is committed.

    It knows at first what it heard as a follower, and that may be less than another leader has shown before.
    """
    log, leading = replica.opened(), replica.leading
    if leading is not None and leading.high_watermark < leading.epoch_start:
        raise Refused(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"{replica.name} ends at {log.end_offset}, and {leading.high_watermark} is known to be committed",
        )


def _earliest(replica: Replica, _read_committed: bool) -> _Found:
    log = replica.opened()
    return _Found(log.start_offset, leader_epoch=log.epochs.epoch_at(log.start_offset))


def _max_timestamp(replica: Replica, _read_committed: bool) -> _Found:
    found = replica.opened().offset_of_max_timestamp(Offset(replica.high_watermark))
    return _NOTHING if found is None else _Found(found.offset, found.timestamp, found.leader_epoch)


def _nothing(_replica: Replica, _read_committed: bool) -> _Found:
    return _NOTHING


_SPECIAL: dict[int, Callable[[Replica, bool], _Found]] = {
    LATEST: _latest,
    EARLIEST: _earliest,
    MAX_TIMESTAMP: _max_timestamp,
    # Everything is local as long as nothing is tiered.
    EARLIEST_LOCAL: _earliest,
    LATEST_TIERED: _nothing,
    EARLIEST_PENDING_UPLOAD: _nothing,
}
