"""Both at once: four connections produce to a partition while a consumer follows its end."""

from bench.loader.jobs import ConsumeJob, ProduceJob
from bench.metrics import Better, Metric
from bench.samples import Values
from bench.scenarios.scenario import Scenario
from bench.stage import Stage

_KEY = "mixed"
_LABEL = "both at once, 64 KiB"


def _sample(stage: Stage) -> Values:
    port, size = stage.broker.port, stage.plan.produce_bytes
    with stage.topic() as topic:
        measured = stage.measure(
            ProduceJob(
                port=port,
                topic=topic.name,
                partitions=1,
                batch_bytes=64 << 10,
                connections=4,
                depth=4,
                max_bytes=size,
                max_s=stage.plan.max_s,
            ),
            ConsumeJob(
                port=port,
                topic=topic.name,
                topic_id=str(topic.topic_id),
                first_offset=1,
                until_offset=None,
                connections=1,
                max_bytes=size,
                max_s=stage.plan.max_s + 1.0,
            ),
        )
    consumed = measured.outcomes[1]
    return {
        f"{_KEY}.produce_mb_s": measured.mb_per_s,
        f"{_KEY}.consume_mb_s": consumed["bytes"] / consumed["seconds"] / 1e6,
        f"{_KEY}.cpu_gb": measured.cpu_s_per_gb,
    }


_METRICS = (
    Metric(f"{_KEY}.produce_mb_s", f"{_LABEL}, in", "MB/s", Better.MORE, headline=True),
    Metric(f"{_KEY}.consume_mb_s", f"{_LABEL}, out", "MB/s", Better.MORE, headline=True),
    Metric(f"{_KEY}.cpu_gb", f"{_LABEL}, in and out", "CPU s/GB", Better.LESS),
)
SCENARIOS = (Scenario(_KEY, "mixed", _METRICS, _sample),)
