"""About what the broker carries: the same bytes through a bare socket, by programs that do nothing with them.

They say what the broker and the loopback carry, and what a client pays for that alone: batches made once and
sent again and again, answers received into one buffer and looked at no further than to know what to ask next.
"""

from uuid import UUID

from bench.clients.jobs import Job
from bench.clients.watch import Stopwatch
from bench.loader.consume import ConsumeLoad
from bench.loader.jobs import ConsumeJob, ProduceJob
from bench.loader.produce import ProduceLoad

_BATCH_BYTES = 1_000_000
"""As large as a client of columns makes them."""
_DEPTH = 5
"""Requests in flight, as many as a producer has that keeps the order."""
_RECORD_OVERHEAD = 12
_READ_OFFSETS = 100_000
"""It reads the first so many records of a partition again and again, or half of what it may have."""
_READERS = 2
_LIMIT_S = 120.0


def bare_send(job: Job, watch: Stopwatch) -> int:
    """As many bytes as the records of the job take, in batches of a megabyte."""
    load = ProduceLoad(
        ProduceJob(
            _port(job), job.topic, job.partitions, _BATCH_BYTES, 1, _DEPTH, _bytes_of(job), max_s=_LIMIT_S
        )
    )
    watch.start()
    outcome = load.run()
    watch.stop()
    # Whole batches: one may be missing at the end.
    return job.count if outcome["bytes"] > _bytes_of(job) - _BATCH_BYTES else 0


def bare_fetch(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """As many bytes as the records of the job take, from one partition, a megabyte an answer.

    On two connections: a broker that has answered one has the next request at hand and never waits for us.
    """
    from everlog.client.sync.admin import Admin

    with Admin(job.bootstrap) as admin:
        topic_id = UUID(bytes=bytes(admin.describe_topics([job.topic])[job.topic].topic_id))
    # Never up to the end, where a fetch waits: partitions need not have the same number of records.
    until = min(_READ_OFFSETS, job.count // job.partitions // 2)
    load = ConsumeLoad(
        ConsumeJob(_port(job), job.topic, str(topic_id), 0, until, _READERS, _bytes_of(job), max_s=_LIMIT_S)
    )
    watch.start()
    outcome = load.run()
    watch.stop()
    count = job.count if outcome["bytes"] >= _bytes_of(job) else 0
    return count, count * job.size


def _port(job: Job) -> int:
    return int(job.bootstrap.rpartition(":")[2])


def _bytes_of(job: Job) -> int:
    return job.count * (job.size + _RECORD_OVERHEAD)
