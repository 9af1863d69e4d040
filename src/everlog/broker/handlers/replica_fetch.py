"""Fetch, versions 15 to 18, of a broker that follows partitions led here (R1, R2, R6).

Where a follower asks from says what it has: that is how the leader learns what is committed. So it is taken
from brokers of the cluster only, on their own listener, with the epoch that they are registered in.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.leadership import check_leads
from everlog.broker.replica_sessions import Followed
from everlog.broker.replicas import Replica
from everlog.broker.replication_quota import ReplicationQuota, is_throttled
from everlog.log.partition import PartitionLog
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.model.ids import BrokerId, Uuid
from everlog.replication.leader import LeaderState
from everlog.wire.hot.fetch import FetchData, FetchResult, Topic, write_fetch_answer

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_INITIAL_EPOCH = 0
_MAX_EPOCH = 0x7FFFFFFF


def handle(broker: "Broker", request: FetchData, exchange: Exchange) -> None:
    """Answer what has changed for the follower, or wait until something has."""
    sessions = broker.replication.sessions
    follower = BrokerId(request.replica_id)
    code = _why_not(broker, request, exchange)
    if code is not ErrorCode.NONE:
        _refuse(exchange, code, request)
        return
    is_full = request.session_epoch == _INITIAL_EPOCH
    if is_full:
        session = sessions.open(follower, request.replica_epoch)
    else:
        known = sessions.of(follower)
        if known is None or known.session_id != request.session_id:
            _refuse(exchange, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, request)
            return
        if known.epoch != request.session_epoch or known.broker_epoch != request.replica_epoch:
            _refuse(exchange, ErrorCode.INVALID_FETCH_SESSION_EPOCH, request)
            return
        session = known
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        session.release()
    session.update(request, broker.replicas)
    session.fetch(exchange, request, is_full=is_full)


def read_for_follower(broker: "Broker", followed: Followed, room: int, nothing_yet: bool) -> FetchResult:
    """What a follower gets of one partition; whatever is wrong with it stays with it."""
    topic, index = followed.key
    replica = broker.replicas.get(topic, index)
    if replica is None:
        is_known = not isinstance(topic, str) and Uuid(topic) in broker.image.topics_by_id
        return FetchResult(
            index, ErrorCode.NOT_LEADER_OR_FOLLOWER if is_known else ErrorCode.UNKNOWN_TOPIC_ID
        )
    try:
        check_leads(replica, followed.leader_epoch)
        log = replica.log or replica.opened()
        leading = replica.leading
        if leading is None or not leading.has_follower(followed.follower):
            # As far as this broker knows, nobody else holds the partition, or that one does not.
            raise Refused(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"{replica.name} is not held by broker {followed.follower}"
            )
        return _read(broker, followed, replica, log, leading, room, nothing_yet)
    except Refused as refused:
        start = -1 if replica.log is None else replica.log.start_offset
        return FetchResult(index, refused.code, start_offset=start)
    except CorruptDataError as error:
        broker.found_corruption(replica, error)
        return FetchResult(index, ErrorCode.KAFKA_STORAGE_ERROR)
    except StorageError:
        return FetchResult(index, ErrorCode.KAFKA_STORAGE_ERROR)


def _read(
    broker: "Broker",
    followed: Followed,
    replica: Replica,
    log: PartitionLog,
    leading: LeaderState,
    room: int,
    nothing_yet: bool,
) -> FetchResult:
    index = followed.key[1]
    offset, end, start = followed.offset, log.end_offset, log.start_offset
    diverging = log.epochs.parting_from(followed.last_epoch, offset, end)
    if diverging is not None:
        return FetchResult(index, 0, leading.high_watermark, -1, start, diverging=diverging)
    if not start <= offset <= end:
        raise Refused(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{replica.name} has offsets {start} to {end}, broker {followed.follower} asks for {offset}",
        )
    if followed.is_new:
        followed.is_new = False
        now = broker.clock.now()
        effects = leading.fetched(followed.follower, followed.follower_epoch, offset, now)
        if effects:
            broker.replication.carry_out(replica, effects)
        broker.replication.follower_start_moved(replica)
    records = None
    if offset < end:
        quota = _quota(broker, followed, replica, leading)
        if room > 0 and (quota is None or not quota.is_exceeded(broker.clock.now())):
            records = log.read(offset, min(room, followed.max_bytes), end, at_least_one=nothing_yet)
            if quota is not None and records is not None:
                quota.used(records.length)
        if records is None:
            followed.waits_its_turn()
    return FetchResult(index, 0, leading.high_watermark, -1, start, records=records)


def _quota(
    broker: "Broker", followed: Followed, replica: Replica, leading: LeaderState
) -> ReplicationQuota | None:
    """What a follower that catches up may be sent at most; None if it is not to be slowed down."""
    if (
        not replica.slowed_readers
        or followed.follower in leading.isr
        or not is_throttled(replica.slowed_readers, replica, broker.node_id)
    ):
        return None
    return broker.replication.sending


def _why_not(broker: "Broker", request: FetchData, exchange: Exchange) -> ErrorCode:
    """Why a fetch cannot be taken as one of a follower; NONE if it can."""
    follower = broker.image.brokers.get(BrokerId(request.replica_id))
    if (
        follower is None
        or follower.id == broker.node_id
        or request.replica_epoch < 0
        or exchange.listener_name != broker.settings.inter_broker_listener
    ):
        # A client that could pull as a replica would move the high watermark (CVE-2018-1288).
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if request.replica_epoch < follower.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if request.session_epoch < 0:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH
    return ErrorCode.NONE


def _refuse(exchange: Exchange, code: ErrorCode, request: FetchData) -> None:
    topics: dict[Topic, list[FetchResult]] = {}
    for wanted in request.partitions:
        topics.setdefault(wanted.topic, []).append(FetchResult(wanted.partition, code))
    exchange.answer_parts(
        write_fetch_answer(exchange.api_version, exchange.correlation_id, code, 0, list(topics.items()))
    )
