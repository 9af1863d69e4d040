"""Latency: until a record is acknowledged, and until it is in a waiting consumer's hands."""

from bench.loader.jobs import AckLatencyJob, EndToEndJob
from bench.metrics import Better, Goal, Metric
from bench.samples import Values
from bench.scenarios.scenario import Scenario
from bench.stage import Stage

_GOAL = Goal(1.0, 2.0)
_PER_SECOND = 1000
_QUANTILES = (("p50", "p50", _GOAL), ("p99", "p99", _GOAL), ("p999", "p99.9", None))


def _closed(stage: Stage) -> Values:
    with stage.topic() as topic:
        found = stage.measure(AckLatencyJob(stage.broker.port, topic.name, stage.plan.latency_s)).outcome
    return {f"latency.closed.ack_{name}": found[f"ack_{name}"] for name, _, _ in _QUANTILES}


def _paced(stage: Stage) -> Values:
    with stage.topic() as topic:
        job = EndToEndJob(
            port=stage.broker.port,
            topic=topic.name,
            topic_id=str(topic.topic_id),
            per_second=_PER_SECOND,
            seconds=stage.plan.latency_s,
        )
        found = stage.measure(job).outcome
    return {
        f"latency.paced.{what}_{name}": found[f"{what}_{name}"]
        for what in ("ack", "e2e")
        for name, _, _ in _QUANTILES
    }


def _metrics(key: str, label: str) -> tuple[Metric, ...]:
    return tuple(
        Metric(f"{key}_{name}", f"{label}, {shown}", "us", Better.LESS, goal, headline=goal is not None)
        for name, shown, goal in _QUANTILES
    )


SCENARIOS = (
    Scenario(
        "latency.closed",
        "latency",
        _metrics("latency.closed.ack", "acknowledgement, one after the other"),
        _closed,
    ),
    Scenario(
        "latency.paced",
        "latency",
        (
            *_metrics("latency.paced.ack", "acknowledgement, 1,000 records/s"),
            *_metrics("latency.paced.e2e", "end to end, 1,000 records/s"),
        ),
        _paced,
    ),
)
