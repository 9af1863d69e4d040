"""Fetch, versions 4 to 18.

4 brings isolation, 5 the log start offset, 7 sessions, 9 the leader epoch, 10 allows zstd, 11 the rack, 12 is
flexible and finds divergence, 13 names topics by id, 15 moves the replica id to a tag, 16 names endpoints,
17 and 18 tell of the replica's directory and high watermark.

The answer holds file ranges, not bytes: they go from the page cache to the socket. A fetch waits no longer
than a connection may be silent, and not at all where those that wait already take all the memory they may.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.fetch_sessions import FetchContext
from everlog.broker.handlers import replica_fetch
from everlog.broker.leader_hints import elsewhere, endpoints
from everlog.broker.leadership import check_leader_epoch, not_leader
from everlog.broker.parked import ParkedFetch
from everlog.broker.replica_selection import preferred_replica, selects_by_rack
from everlog.broker.replicas import Replica
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.model.ids import Instant
from everlog.wire.hot.fetch import (
    FIRST_WITH_TOPIC_ID,
    FetchData,
    FetchPartition,
    FetchResult,
    Topic,
    write_fetch_answer,
)
from everlog.wire.hot.writing import NodeEndpoint

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


_FIRST_FROM_FOLLOWERS = 11
"""From here on a reader knows that a replica which follows may know less than the leader (KIP-392)."""
_MANY = 1_000
"""Of so many partitions one may be named again and again. With fewer that costs nobody anything."""

_ASK_THE_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class _Answer:
    """The results of one pass over the partitions of a fetch."""

    __slots__ = ("bytes_found", "must_go", "topics")

    def __init__(self) -> None:
        self.topics: list[tuple[Topic, list[FetchResult]]] = []
        self.bytes_found = 0
        self.must_go = False
        """Whether there is something that the client should not wait for, such as an error."""

    def add(self, topic: Topic, result: FetchResult) -> None:
        if self.topics and self.topics[-1][0] == topic:
            self.topics[-1][1].append(result)
        else:
            self.topics.append((topic, [result]))


def handle(broker: "Broker", request: FetchData, exchange: Exchange) -> None:
    """Answer at once if there is enough, else park the fetch until there is or its time is up."""
    now = broker.clock.now()
    version = exchange.api_version
    if request.replica_id >= 0:
        replica_fetch.handle(broker, request, exchange)
        return
    if len(request.partitions) > _MANY:
        request = _each_once(request)
    try:
        context = broker.fetch_sessions.context(request, version >= FIRST_WITH_TOPIC_ID, now)
    except Refused as refused:
        exchange.answer_parts(write_fetch_answer(version, exchange.correlation_id, refused.code, 0, []))
        return
    answer = _read_all(broker, request, context, exchange)
    if (
        answer.must_go
        or answer.bytes_found >= request.min_bytes
        or request.max_wait_ms <= 0
        or not context.partitions
    ):
        _send(broker, exchange, context, answer)
        return
    _park(broker, request, context, exchange, answer, now)


def _each_once(request: FetchData) -> FetchData:
    """The request with what it says last of each partition, as Kafka reads it."""
    last = {(one.topic, one.partition): one for one in request.partitions}
    return request._replace(partitions=list(last.values()))


def _park(
    broker: "Broker",
    request: FetchData,
    context: FetchContext,
    exchange: Exchange,
    answer: _Answer,
    now: Instant,
) -> None:
    replicas: list[Replica] = []
    for wanted in context.partitions:
        replica = broker.replicas.get(wanted.topic, wanted.partition)
        if replica is not None:
            replicas.append(replica)

    def answer_now(in_any_case: bool) -> bool:
        if exchange.abandoned:
            return True
        found = _read_all(broker, request, context, exchange)
        if not (in_any_case or found.must_go or found.bytes_found >= request.min_bytes):
            return False
        _send(broker, exchange, context, found)
        return True

    missing = request.min_bytes - answer.bytes_found
    wait_ms, most = request.max_wait_ms, broker.fetch_max_wait_ms
    deadline = Instant(now + (wait_ms if wait_ms < most else most))
    if not broker.parked.park(ParkedFetch(exchange, replicas, missing, deadline, answer_now), now):
        _send(broker, exchange, context, answer)


def _read_all(broker: "Broker", request: FetchData, context: FetchContext, exchange: Exchange) -> _Answer:
    answer = _Answer()
    read_committed = request.read_committed
    from_followers = exchange.api_version >= _FIRST_FROM_FOLLOWERS
    by_rack = request.rack_id != "" and selects_by_rack(broker)
    room = min(request.max_bytes, broker.fetch_max_bytes)
    for wanted in context.partitions:
        result = _in_rack(broker, wanted, request, exchange.listener_name) if by_rack else None
        if result is None:
            result = _read_one(broker, wanted, read_committed, from_followers, room, answer.bytes_found == 0)
        if result.records is not None:
            answer.bytes_found += result.records.length
            room -= result.records.length
        elif result.error_code or result.diverging is not None or result.preferred >= 0:
            answer.must_go = True
        answer.add(wanted.topic, result)
    return answer


def _in_rack(
    broker: "Broker", wanted: FetchPartition, request: FetchData, listener_name: str
) -> FetchResult | None:
    """The name of a replica in the consumer's rack that has what it wants; None if it should read here."""
    replica = broker.replicas.get(wanted.topic, wanted.partition)
    if replica is None or wanted.leader_epoch not in (-1, replica.leader_epoch) or replica.leading is None:
        return None
    preferred = preferred_replica(broker, replica, wanted.fetch_offset, request.rack_id, listener_name)
    if preferred is None:
        return None
    return FetchResult(
        wanted.partition,
        0,
        replica.high_watermark,
        replica.last_stable_offset,
        replica.opened().start_offset,
        [] if request.read_committed else None,
        preferred=preferred,
    )


def _read_one(
    broker: "Broker",
    wanted: FetchPartition,
    read_committed: bool,
    from_followers: bool,
    room: int,
    nothing_yet: bool,
) -> FetchResult:
    """Read one partition; whatever is wrong with it stays with it."""
    replica = broker.replicas.get(wanted.topic, wanted.partition)
    if replica is None:
        code, leader = elsewhere(broker, wanted.topic, wanted.partition)
        return FetchResult(wanted.partition, code, leader=leader)
    try:
        return _read_replica(replica, wanted, read_committed, from_followers, room, nothing_yet)
    except Refused as refused:
        log = replica.log
        if refused.code in _ASK_THE_LEADER:
            hint = (int(replica.leader), int(replica.leader_epoch))
            return FetchResult(wanted.partition, refused.code, leader=hint)
        if log is None or refused.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            return FetchResult(wanted.partition, refused.code)
        return FetchResult(
            wanted.partition,
            refused.code,
            replica.high_watermark,
            replica.last_stable_offset,
            log.start_offset,
        )
    except CorruptDataError as error:
        broker.found_corruption(replica, error)
        return FetchResult(wanted.partition, ErrorCode.KAFKA_STORAGE_ERROR)
    except StorageError:
        return FetchResult(wanted.partition, ErrorCode.KAFKA_STORAGE_ERROR)


def _read_replica(
    replica: Replica,
    wanted: FetchPartition,
    read_committed: bool,
    from_followers: bool,
    room: int,
    nothing_yet: bool,
) -> FetchResult:
    check_leader_epoch(replica, wanted.leader_epoch)
    log = replica.log or replica.opened()
    if not replica.leads and not (from_followers and replica.following is not None):
        raise not_leader(replica)
    offset = wanted.fetch_offset
    log_end = log.end_offset
    # Up to where it is committed. Only replicas that have others know less than that they have.
    end = log_end if replica.sole else replica.high_watermark
    stable = log.last_stable_offset(end)
    start = log.start_offset
    if not replica.leads and (offset > log_end or wanted.last_fetched_epoch > log.epochs.latest):
        # Not yet, rather than out of range: a reader would begin anew (KIP-392).
        raise Refused(
            ErrorCode.OFFSET_NOT_AVAILABLE, f"{replica.name} has come to {log_end} here, asked for {offset}"
        )
    if wanted.last_fetched_epoch >= 0:
        epoch, epoch_end = log.epochs.end_offset_for(wanted.last_fetched_epoch, log_end)
        if epoch_end < 0:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{replica.name} has epochs up to {log.epochs.latest}, "
                f"the reader has {wanted.last_fetched_epoch}",
            )
        if epoch < wanted.last_fetched_epoch or epoch_end < offset:
            return FetchResult(wanted.partition, 0, end, stable, start, diverging=(epoch, epoch_end))
    limit = stable if read_committed else end
    if start <= offset <= log_end and offset >= limit:
        return FetchResult(wanted.partition, 0, end, stable, start, [] if read_committed else None)
    most = min(room, wanted.max_bytes)
    if most <= 0 and not nothing_yet and start <= offset <= log_end:
        return FetchResult(wanted.partition, 0, end, stable, start, [] if read_committed else None)
    records = log.read(offset, most, limit, at_least_one=nothing_yet)
    aborted: list[tuple[int, int]] | None = None
    if read_committed:
        aborted = [] if records is None else [entry[:2] for entry in log.aborted_between(offset, limit)]
    return FetchResult(wanted.partition, 0, end, stable, start, aborted, records)


def _send(broker: "Broker", exchange: Exchange, context: FetchContext, answer: _Answer) -> None:
    topics = answer.topics
    session = context.session
    if session is not None:
        told: list[tuple[Topic, list[FetchResult]]] = []
        for topic, results in topics:
            news = [result for result in results if session.worth_telling(topic, result)]
            if news:
                told.append((topic, news))
        if context.incremental:
            topics = told
    known = _endpoints(broker, exchange, topics) if answer.must_go else ()
    exchange.answer_parts(
        write_fetch_answer(
            exchange.api_version, exchange.correlation_id, 0, context.session_id, topics, known
        )
    )


def _endpoints(
    broker: "Broker", exchange: Exchange, topics: list[tuple[Topic, list[FetchResult]]]
) -> list[NodeEndpoint]:
    """Where the leaders are that the results name."""
    leaders = [result.leader[0] for _, results in topics for result in results if result.leader is not None]
    return endpoints(broker, exchange.listener_name, leaders)
