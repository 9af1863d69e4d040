"""Produce, versions 9 to 13, where several plain requests for one partition came together.

They are appended with one write and answered with one send. Whatever stands in the way of that, from a full
disk to a duplicate, sends them one by one through `produce`, which finds the same and says so.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Parts
from everlog.model.errors import StorageError
from everlog.records.run import checked_run
from everlog.wire.hot.produce_run import ProduceRun, write_run_answers

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def answer_run(broker: "Broker", data: memoryview, run: ProduceRun) -> Parts | None:
    """Append the batches of all the requests and return their answers; None if nothing was done."""
    _, _, acks, topic, partition, _, spans = run
    replicas = broker.replicas
    held = replicas.by_name.get(topic) if isinstance(topic, str) else replicas.by_id.get(topic)
    replica = None if held is None else held.get(partition)
    if replica is None or replica.internal or broker.housekeeping.without_room:
        return None
    log = replica.log
    if log is None or (acks != 1 and (acks != -1 or replica.min_insync > 1)):
        return None
    batches = checked_run(data, spans)
    if batches is None:
        return None
    try:
        base_offsets = log.append_run(batches, replica.leader_epoch, broker.clock.wall())
    except StorageError:
        return None
    if base_offsets is None:
        return None
    if replica.watchers:
        broker.parked.appended(replica, batches.size)
    return (write_run_answers(run, base_offsets, log.start_offset),)
