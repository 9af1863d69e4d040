"""From a process's start: time to the first acknowledged record, then memory idle, under load and after."""

import time

from bench.loader.admin import create_topic
from bench.loader.batches import batch_of_size
from bench.loader.jobs import ConsumeJob, ProduceJob
from bench.metrics import Better, Goal, Metric
from bench.samples import Values
from bench.scenarios.scenario import Scenario
from bench.stage import Stage

_BATCH_BYTES = 64 << 10
_PARTITIONS = 12


def _sample(stage: Stage) -> Values:
    broker = stage.broker
    broker.wait_listening()
    create_topic(stage.link, "first", 1)
    start_s = time.perf_counter() - broker.started_at
    time.sleep(stage.plan.settle_s)
    idle_mb = broker.rss_mb()
    _load(stage)
    peak_mb = broker.peak_rss_mb()
    time.sleep(stage.plan.settle_s)
    return {
        "start.first_ack_s": start_s,
        "memory.idle_mb": idle_mb,
        "memory.peak_mb": peak_mb,
        "memory.after_mb": broker.rss_mb(),
    }


def _load(stage: Stage) -> None:
    """Large batches to many partitions, small requests on many connections, then four readers."""
    port, plan = stage.broker.port, stage.plan
    with stage.topic(_PARTITIONS) as topic:
        name, topic_id = topic.name, str(topic.topic_id)
        large = ProduceJob(port, name, _PARTITIONS, _BATCH_BYTES, 4, 4, plan.produce_bytes, plan.max_s)
        sent = int(stage.measure(large).outcome["requests"])
        small = ProduceJob(port, name, _PARTITIONS, 0, 50, 1, plan.produce_bytes, plan.latency_s)
        stage.measure(small)
        # The first partition has at least a twelfth of the large batches, less what was in flight at the end.
        end = 1 + max(1, sent // _PARTITIONS - 16) * batch_of_size(_BATCH_BYTES)[1]
        stage.measure(ConsumeJob(port, name, topic_id, 1, end, 4, plan.fetch_bytes, plan.max_s))


_METRICS = (
    Metric(
        "start.first_ack_s",
        "start to first acknowledged record",
        "s",
        Better.LESS,
        Goal(0.5, 0.25, True),
        True,
    ),
    Metric("memory.idle_mb", "resident memory, idle", "MB", Better.LESS, Goal(80.0, 45.0, True), True),
    Metric("memory.peak_mb", "resident memory, most under load", "MB", Better.LESS),
    Metric(
        "memory.after_mb", "resident memory, after load", "MB", Better.LESS, Goal(200.0, 100.0, True), True
    ),
)
SCENARIOS = (Scenario("lifecycle", "lifecycle", _METRICS, _sample, fresh=True),)
