"""Produce: valid batches of 100-byte records, acks=all, one replica, four requests in flight a connection."""

from functools import partial

from bench.loader.jobs import ProduceJob
from bench.metrics import Better, Goal, Metric
from bench.samples import Values
from bench.scenarios.scenario import Scenario
from bench.stage import Stage

_DEPTH = 4
_SIZES = (
    ("16 KiB", 16 << 10, Goal(2.5, 4.0)),
    ("64 KiB", 64 << 10, Goal(2.5, 4.0)),
    ("1 MiB", 1 << 20, Goal(2.0, 3.0)),
)
_CPU_GOAL = Goal(3.0, 5.0)
_SHAPES = ((1, 1), (1, 4), (12, 1), (12, 4))
_HEADLINE_SHAPE = (1, 4)


def _sample(key: str, batch_bytes: int, partitions: int, connections: int, stage: Stage) -> Values:
    size = stage.plan.produce_bytes
    with stage.topic(partitions) as topic:
        measured = stage.measure(
            ProduceJob(
                port=stage.broker.port,
                topic=topic.name,
                partitions=partitions,
                batch_bytes=batch_bytes,
                connections=connections,
                depth=_DEPTH,
                max_bytes=size,
                max_s=stage.plan.max_s,
            ),
        )
    return {f"{key}.mb_s": measured.mb_per_s, f"{key}.cpu_gb": measured.cpu_s_per_gb}


def _scenario(size: tuple[str, int, Goal], shape: tuple[int, int]) -> Scenario:
    (name, batch_bytes, goal), (partitions, connections) = size, shape
    key = f"produce.{name.replace(' ', '')}.{partitions}p.{connections}c"
    label = f"produce {name}, {_count(partitions, 'partition')}, {_count(connections, 'connection')}"
    headline = shape == _HEADLINE_SHAPE
    metrics = (
        Metric(f"{key}.mb_s", label, "MB/s", Better.MORE, goal, headline),
        Metric(f"{key}.cpu_gb", label, "CPU s/GB", Better.LESS, _CPU_GOAL, headline),
    )
    return Scenario(key, "produce", metrics, partial(_sample, key, batch_bytes, partitions, connections))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


SCENARIOS = tuple(_scenario(size, shape) for size in _SIZES for shape in _SHAPES)
