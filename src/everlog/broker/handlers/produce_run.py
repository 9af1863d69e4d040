"""Produce, versions 9 to 13, the short way: plain requests that came together, taken in by compiled code.

Requests of the plainest kind (one batch for one partition, no codec, no transaction) whose log has a lane
open (`log.lane`) are read, checked, appended and answered by `_lanes.take`, those that follow each other for
one partition with one write. Whatever stands in the way of that, from a full disk to a duplicate, sends them
one by one through `produce`, which finds the same and says so. Without the compiled code all go that way.
"""

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from everlog.broker.exchange import Exchange
from everlog.broker.replicas import Replica
from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant
from everlog.wire.hot.produce import FIRST_WITH_TOPIC_ID, ProduceResult, write_produce_answer

if TYPE_CHECKING:
    from everlog.broker.broker import Broker
    from everlog.broker.session import Session

try:
    from everlog.broker import _lanes
except ImportError:
    _lanes = None  # type: ignore[assignment]  # the one module that may be missing

_MOST_TURNS = 64
"""So often the compiled code is asked for more before others may have their turn."""

_MOST_LANES = 1024
"""The lane that was opened first is given up for another. Fewer of them hold a descriptor."""

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_KEY_AT = 4
_CLIENT_ID_AT = 12
_FROM_CLIENT_ID_TO_TIMEOUT = 2 + 1 + 1 + 2
"""The client id's length, and what lies behind it up to the time-out: tags, transactional id, acks."""


class OwedRun(NamedTuple):
    """Requests for one partition that are in the log and not answered yet."""

    replica: Replica
    size: int
    """Bytes of their batches."""
    acks: int
    version: int
    correlation_ids: tuple[int, ...]


def lanes_are_built() -> bool:
    """Whether `take_runs` ever takes anything in this process."""
    return _lanes is not None  # pyright: ignore[reportUnnecessaryComparison]  # see the import


def take_runs(broker: "Broker", session: "Session", data: memoryview, at: int, end: int) -> int:
    """Append the batches of plain requests at `at` and answer them, now or later; returns where those end."""
    if _lanes is None or end - at < _CLIENT_ID_AT or data[_KEY_AT + at] or data[_KEY_AT + at + 1]:
        return at
    if broker.housekeeping.without_room:
        return at
    replicas = broker.replicas
    wall = broker.clock.wall()
    opened_at = -1
    for _ in range(_MOST_TURNS):
        after, answers, noted, stuck = _lanes.take(replicas.by_name, replicas.by_id, data, at, end, wall)
        if after != at:
            if noted is None:
                session.gathered.append(answers)
            else:
                _look_after(broker, session, [OwedRun(*one) for one in noted], answers, data, at)
            at = after
        if stuck is not None:
            if opened_at == at or not _open_lane(broker, *stuck):
                break
            opened_at = at
        elif noted is None:
            break
    return at


def _open_lane(broker: "Broker", replica: Replica, producer_id: int) -> bool:
    log = replica.log
    if log is None or _lanes is None or not log.enter_lane(_lanes.Lane, replica.leader_epoch, producer_id):
        return False
    lanes = broker.lanes
    lanes[log] = None
    if len(lanes) > _MOST_LANES:
        oldest = next(iter(lanes))
        del lanes[oldest]
        oldest.leave_lane()
    return True


def _look_after(
    broker: "Broker", session: "Session", runs: list[OwedRun], answers: bytes, data: memoryview, at: int
) -> None:
    """Tell those who wait for records of the partitions, or copy them; a run that is copied comes alone."""
    first = runs[0]
    replica, leading = first.replica, first.replica.leading
    if leading is None:
        session.gathered.append(answers)
        for run in runs:
            broker.parked.appended(run.replica, run.size)
        return
    assert len(runs) == 1, runs
    assert replica.log is not None, replica
    end_offset = replica.log.end_offset
    broker.replication.appended(replica, first.size)
    if first.acks == 1 or leading.high_watermark >= end_offset:
        session.gathered.append(answers)
        return
    broker.replication.when_committed(
        replica,
        end_offset,
        partial(_committed, session.owe_run(first), first, answers),
        deadline=Instant(broker.clock.now() + _timeout_ms(data, at)),
        while_enough=True,
    )


def _timeout_ms(data: memoryview, at: int) -> int:
    """How long the first request of a run may wait; the others are of the same client, and mean the same."""
    client_id_bytes = _INT16.unpack_from(data, at + _CLIENT_ID_AT)[0]
    found: int = _INT32.unpack_from(
        data, at + _CLIENT_ID_AT + max(client_id_bytes, 0) + _FROM_CLIENT_ID_TO_TIMEOUT
    )[0]
    return max(found, 0)


def _committed(exchange: Exchange, run: OwedRun, answers: bytes, code: ErrorCode) -> None:
    if code:
        name = run.replica.name
        topic: str | bytes = run.replica.topic_id if run.version >= FIRST_WITH_TOPIC_ID else name.topic
        results: list[tuple[str | bytes, list[ProduceResult]]] = [
            (topic, [ProduceResult(name.partition, code)])
        ]
        answers = b"".join(write_produce_answer(run.version, one, results) for one in run.correlation_ids)
    exchange.answer_parts((answers,))
