"""Records written by another client; confluent-kafka's binding is typed in part only, so `Any`."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

_kafka: Any = import_module("confluent_kafka")
PATIENCE_S = 60.0


def write(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int = 0,
    timestamps: Sequence[int] | None = None,
    **config: Any,
) -> None:
    """Write values in order to a partition; config keys of librdkafka with `_` for the dots."""
    producer: Any = _kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 1,
            "enable.idempotence": True,  # Else a retry may change the order.
            **{key.replace("_", "."): value for key, value in config.items()},
        }
    )
    for index, value in enumerate(values):
        stamp = {} if timestamps is None else {"timestamp": timestamps[index]}
        producer.produce(topic, value=value, partition=partition, on_delivery=_check, **stamp)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


class Transactions:
    """Writes in transactions."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer: Any = _kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 1}
        )
        self._producer.init_transactions(PATIENCE_S)

    def begin(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        """Begin one and have the values in the log."""
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(topic, value=value, partition=partition, on_delivery=_check)
        assert self._producer.flush(PATIENCE_S) == 0

    def commit(self) -> None:
        """Commit what is open."""
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        """Abort what is open."""
        self._producer.abort_transaction(PATIENCE_S)


def _check(error: Any, _message: Any) -> None:
    assert error is None, error
