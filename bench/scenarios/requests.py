"""Small requests: one record of 100 bytes in each, one in flight a connection."""

from functools import partial

from bench.loader.jobs import ProduceJob
from bench.metrics import Better, Goal, Metric
from bench.samples import Values
from bench.scenarios.scenario import Scenario
from bench.stage import Stage

_GOAL = Goal(1.0, 2.0)
_UNLIMITED = 1 << 40


def _sample(key: str, connections: int, stage: Stage) -> Values:
    with stage.topic() as topic:
        measured = stage.measure(
            ProduceJob(
                port=stage.broker.port,
                topic=topic.name,
                partitions=1,
                batch_bytes=0,
                connections=connections,
                depth=1,
                max_bytes=_UNLIMITED,
                max_s=stage.plan.latency_s,
            )
        )
    return {f"{key}.per_s": measured.requests_per_s, f"{key}.cpu_us": measured.cpu_us_per_request}


def _scenario(connections: int) -> Scenario:
    key = f"requests.{connections}c"
    label = f"small requests, {connections} connection{'s' if connections > 1 else ''}"
    metrics = (
        Metric(f"{key}.per_s", label, "req/s", Better.MORE, _GOAL, headline=True),
        Metric(f"{key}.cpu_us", label, "CPU us/req", Better.LESS),
    )
    return Scenario(key, "requests", metrics, partial(_sample, key, connections))


SCENARIOS = (_scenario(1), _scenario(50))
