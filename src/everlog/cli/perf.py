"""`everlog perf`: the group; its commands are in `perf_produce`, `perf_consume` and `perf_latency`."""

from everlog.cli.lazy import Lazy, LazyGroup

EXAMPLES = """
$ everlog perf produce perf-test --records 1000000 --size 100
$ everlog perf consume perf-test
$ everlog perf latency perf-test --count 5000 --json
"""

perf = LazyGroup(
    "perf",
    {
        "produce": Lazy("everlog.cli.perf_produce", "produce", "Measure how fast records are written."),
        "consume": Lazy("everlog.cli.perf_consume", "consume", "Measure how fast records are read."),
        "latency": Lazy(
            "everlog.cli.perf_latency", "latency", "Measure acknowledgement and end-to-end latency."
        ),
    },
    "Measure producing, consuming and latency, on Everlog or any Kafka cluster.",
    examples=EXAMPLES,
)
