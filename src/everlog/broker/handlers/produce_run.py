"""Produce, versions 9 to 13, where several plain requests for one partition came together.

They are appended with one write and answered with one send. Whatever stands in the way of that, from a full
disk to a duplicate, sends them one by one through `produce`, which finds the same and says so.

Most requests of a busy broker come this way, so `take_runs` is one long function: a call here costs more than
what it would do.
"""

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode, StorageError
from everlog.model.ids import Instant, Timestamp
from everlog.records.run import checked_run, run_bytes
from everlog.wire.hot.produce import ProduceResult, write_produce_answer
from everlog.wire.hot.produce_run import ProduceRun, read_run, write_run_answers

if TYPE_CHECKING:
    from everlog.broker.broker import Broker
    from everlog.broker.session import Session

_MOST_RUNS = 64
"""So many are taken before others may have their turn."""

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_CLIENT_ID_AT = 12
_FROM_CLIENT_ID_TO_TIMEOUT = 2 + 1 + 1 + 2
"""The client id's length, and what lies behind it up to the time-out: tags, transactional id, acks."""


def take_runs(broker: "Broker", session: "Session", data: memoryview, at: int, end: int) -> int:
    """Append the batches of the runs at `at` and answer them, now or later; returns where those end."""
    by_name, by_id = broker.replicas.by_name, broker.replicas.by_id
    gathered = session.gathered
    wall: Timestamp | None = None
    for _ in range(_MOST_RUNS):
        run = read_run(data, at, end)
        if run is None or broker.housekeeping.without_room:
            break
        after, _, acks, topic, partition, correlation_ids, spans = run
        held = by_name.get(topic) if isinstance(topic, str) else by_id.get(topic)
        replica = None if held is None else held.get(partition)
        if replica is None or not replica.leads or replica.internal:
            break
        log, leading = replica.log, replica.leading
        if log is None or (acks != 1 and acks != -1):
            break
        if acks == -1 and replica.min_insync > (1 if leading is None else len(leading.isr)):
            break
        batches = checked_run(data, spans)
        if batches is None:
            break
        if wall is None:
            wall = broker.clock.wall()
        try:
            base_offsets = log.append_run(batches, replica.leader_epoch, wall)
        except StorageError:
            break
        if base_offsets is None:
            break
        answers = write_run_answers(topic, partition, correlation_ids, base_offsets, log.start_offset)
        if leading is None:
            if replica.watchers:
                broker.parked.appended(replica, run_bytes(batches))
            gathered.append(answers)
        else:
            end_offset = log.end_offset
            broker.replication.appended(replica, run_bytes(batches))
            if acks == 1 or leading.high_watermark >= end_offset:
                gathered.append(answers)
            else:
                broker.replication.when_committed(
                    replica,
                    end_offset,
                    partial(_committed, session.owe_run(run), run, answers),
                    deadline=Instant(broker.clock.now() + _timeout_ms(data, at)),
                    while_enough=True,
                )
        at = after
    return at


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
