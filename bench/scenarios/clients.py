"""A real client, confluent-kafka, beside the raw loaders: here it is the client that works most."""

from bench.loader.jobs import ClientConsumeJob, ClientProduceJob
from bench.metrics import Better, Metric
from bench.samples import Values
from bench.scenarios.scenario import Scenario
from bench.stage import Stage

_LABEL = "confluent-kafka, 100-byte records"


def _sample(stage: Stage) -> Values:
    port, records = stage.broker.port, stage.plan.client_records
    with stage.topic() as topic:
        produced = stage.measure(ClientProduceJob(port, topic.name, records))
        consumed = stage.measure(ClientConsumeJob(port, topic.name, records))
    return {
        "clients.produce_mb_s": produced.mb_per_s,
        "clients.produce_cpu_gb": produced.cpu_s_per_gb,
        "clients.consume_mb_s": consumed.mb_per_s,
        "clients.consume_cpu_gb": consumed.cpu_s_per_gb,
    }


_METRICS = (
    Metric("clients.produce_mb_s", f"{_LABEL}, produce", "MB/s", Better.MORE),
    Metric("clients.produce_cpu_gb", f"{_LABEL}, produce", "CPU s/GB", Better.LESS),
    Metric("clients.consume_mb_s", f"{_LABEL}, consume", "MB/s", Better.MORE),
    Metric("clients.consume_cpu_gb", f"{_LABEL}, consume", "CPU s/GB", Better.LESS),
)
SCENARIOS = (Scenario("clients", "clients", _METRICS, _sample),)
