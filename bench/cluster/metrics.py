"""The figures of a cluster, and what they must show."""

from bench.metrics import Better, Goal, Metric

PACES = (300, 3_000)
"""Records a second."""
SHAPES = ((1, "one partition"), (3, "three partitions, a leader on each broker"))
QUANTILES = (("p50", "p50"), ("p99", "p99"))

_PRODUCE_GOAL = Goal(4.0, 8.0)
_LATENCY_GOAL = Goal(1.0, 2.0)
_FAILOVER_GOAL = Goal(1.0, 0.3, absolute=True)


def _produce() -> list[Metric]:
    found: list[Metric] = []
    for partitions, shape in SHAPES:
        key, label = f"cluster.produce.{partitions}p", f"3 brokers, produce 64 KiB, {shape}"
        found.append(Metric(f"{key}.mb_s", label, "MB/s", Better.MORE, _PRODUCE_GOAL, headline=True))
        found.append(Metric(f"{key}.cpu_gb", label, "CPU s/GB", Better.LESS, _PRODUCE_GOAL, headline=True))
    return found


def _latency() -> list[Metric]:
    return [
        Metric(
            f"cluster.latency.{pace}.{what}_{name}",
            f"3 brokers, {label}, {pace:,} records/s, {shown}",
            "us",
            Better.LESS,
            _LATENCY_GOAL,
            headline=True,
        )
        for pace in PACES
        for what, label in (("ack", "acknowledgement"), ("e2e", "end to end"))
        for name, shown in QUANTILES
    ]


def _failover() -> list[Metric]:
    return [
        Metric(
            f"cluster.{group}.{key}", f"kill -9 of {whom}, {label}", "s", Better.LESS, goal, headline=shown
        )
        for group, whom in (
            ("failover", "a leader"),
            ("failover.controller", "a leader that is the active controller"),
        )
        for key, label, goal, shown in (
            ("p50", "writable again, p50", None, True),
            ("p99", "writable again, p99", _FAILOVER_GOAL, True),
            ("most", "writable again, longest", None, False),
            ("client_p50", "confluent-kafka's next acknowledgement, p50", None, False),
            ("client_most", "confluent-kafka's next acknowledgement, longest", None, False),
        )
    ]


METRICS: tuple[Metric, ...] = (*_produce(), *_latency(), *_failover())
