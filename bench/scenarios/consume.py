"""Consume: sequential fetches of at most 1 MiB out of the page cache, one in flight a connection."""

from functools import partial

from bench.loader.batches import batch_of_size
from bench.loader.jobs import ConsumeJob, ProduceJob
from bench.metrics import Better, Goal, Metric
from bench.samples import Values
from bench.scenarios.scenario import Scenario
from bench.stage import Stage

_BATCH_BYTES = 64 << 10
_RATE_GOAL = Goal(1.2, 1.5)
_CPU_GOAL = Goal(1 / 0.8, 1 / 0.55)


def _sample(key: str, connections: int, stage: Stage) -> Values:
    with stage.topic() as topic:
        filled = stage.measure(
            ProduceJob(
                port=stage.broker.port,
                topic=topic.name,
                partitions=1,
                batch_bytes=_BATCH_BYTES,
                connections=2,
                depth=4,
                max_bytes=stage.plan.produce_bytes,
                max_s=60.0,
            )
        )
        end = 1 + int(filled.outcome["requests"]) * batch_of_size(_BATCH_BYTES)[1]
        measured = stage.measure(
            ConsumeJob(
                port=stage.broker.port,
                topic=topic.name,
                topic_id=str(topic.topic_id),
                first_offset=1,
                until_offset=end,
                connections=connections,
                max_bytes=stage.plan.fetch_bytes,
                max_s=stage.plan.max_s,
            )
        )
    return {f"{key}.mb_s": measured.mb_per_s, f"{key}.cpu_gb": measured.cpu_s_per_gb}


def _scenario(connections: int) -> Scenario:
    key = f"consume.{connections}c"
    label = f"fetch from page cache, {connections} connection{'s' if connections > 1 else ''}"
    headline = connections == 1
    metrics = (
        Metric(f"{key}.mb_s", label, "MB/s", Better.MORE, _RATE_GOAL, headline),
        Metric(f"{key}.cpu_gb", label, "CPU s/GB", Better.LESS, _CPU_GOAL, headline),
    )
    return Scenario(key, "consume", metrics, partial(_sample, key, connections))


SCENARIOS = (_scenario(1), _scenario(4))
