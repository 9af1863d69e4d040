"""The clients under test, each behind the one face of `face.Client`, made by name with `connect`."""

from collections.abc import Callable

from tests.apache_kafka import Unavailable, programs_missing
from tests.conformance.clients import aio, confluent, kafka_python, kcat, other_languages
from tests.conformance.clients.face import Client


def _kcat(bootstrap: str) -> Client | Unavailable:
    return programs_missing("kcat") or kcat.connect(bootstrap)


ALL: dict[str, Callable[[str], Client | Unavailable]] = {
    "confluent-kafka": confluent.connect,
    "kafka-python": kafka_python.connect,
    "aiokafka": aio.connect,
    "kcat": _kcat,
    "kafka-clients": other_languages.java,
    "kafkajs": other_languages.node,
    "franz-go": other_languages.go,
}
PYTHON = ("confluent-kafka", "kafka-python", "aiokafka")
