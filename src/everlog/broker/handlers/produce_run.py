"""Produce, versions 9 to 13, where several plain requests for one partition came together.

They are appended with one write and answered with one send. Whatever stands in the way of that, from a full
disk to a duplicate, sends them one by one through `produce`, which finds the same and says so.
"""

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode, StorageError
from everlog.model.ids import Instant, Timestamp
from everlog.records.run import checked_run
from everlog.wire.hot.produce import ProduceResult, write_produce_answer
from everlog.wire.hot.produce_run import ProduceRun, write_run_answers

if TYPE_CHECKING:
    from everlog.broker.broker import Broker
    from everlog.broker.session import Session

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_CLIENT_ID_AT = 12
_FROM_CLIENT_ID_TO_TIMEOUT = 2 + 1 + 1 + 2
"""The client id's length, and what lies behind it up to the time-out: tags, transactional id, acks."""


def take_run(
    broker: "Broker", session: "Session", data: memoryview, at: int, run: ProduceRun, wall: Timestamp
) -> bool:
    """Append the batches of the requests at `at` and answer them, now or later; False if nothing was done."""
    _, _, acks, topic, partition, correlation_ids, spans = run
    replicas = broker.replicas
    held = replicas.by_name.get(topic) if isinstance(topic, str) else replicas.by_id.get(topic)
    replica = None if held is None else held.get(partition)
    if replica is None or not replica.leads or replica.internal or broker.housekeeping.without_room:
        return False
    log = replica.log
    leading = replica.leading
    if log is None or (acks != 1 and acks != -1):
        return False
    if acks == -1 and replica.min_insync > (1 if leading is None else len(leading.isr)):
        return False
    batches = checked_run(data, spans)
    if batches is None:
        return False
    try:
        base_offsets = log.append_run(batches, replica.leader_epoch, wall)
    except StorageError:
        return False
    if base_offsets is None:
        return False
    answers = write_run_answers(topic, partition, correlation_ids, base_offsets, log.start_offset)
    if leading is None:
        if replica.watchers:
            broker.parked.appended(replica, batches.size)
        session.gathered.append(answers)
        return True
    end = log.end_offset
    broker.replication.appended(replica, batches.size)
    if acks == 1 or leading.high_watermark >= end:
        session.gathered.append(answers)
    else:
        broker.replication.when_committed(
            replica,
            end,
            partial(_committed, session.owe_run(run), run, answers),
            deadline=Instant(broker.clock.now() + _timeout_ms(data, at)),
            while_enough=True,
        )
    return True


def _timeout_ms(data: memoryview, at: int) -> int:
    """How long the first request of a run may wait; the others are of the same client, and mean the same."""
    client_id_bytes = _INT16.unpack_from(data, at + _CLIENT_ID_AT)[0]
    found: int = _INT32.unpack_from(
        data, at + _CLIENT_ID_AT + max(client_id_bytes, 0) + _FROM_CLIENT_ID_TO_TIMEOUT
    )[0]
    return max(found, 0)


def _committed(exchange: Exchange, run: ProduceRun, answers: bytes, code: ErrorCode) -> None:
    if code:
        _, version, _, topic, partition, correlation_ids, _ = run
        results = [(topic, [ProduceResult(partition, code)])]
        answers = b"".join(write_produce_answer(version, one, results) for one in correlation_ids)
    exchange.answer_parts((answers,))
