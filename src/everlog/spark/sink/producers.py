"""The producers of one worker process, kept between tasks: connections and metadata are there already.

A transactional producer serves one run of one query. It is lent again only for a later batch of that run:
Spark begins a batch when the one before is committed, so its last transaction is over by then. For anything
else, such as a batch that is run again, there is a new one: to take over an id aborts what is open there, and
what is open may be about to be decided by a driver that is slow.
"""

import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

from everlog.client.core.admin.configs import ConfigResource
from everlog.client.core.producer.settings import ProducerOptions
from everlog.client.sync.admin import Admin
from everlog.client.sync.producer import Producer
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.spark.sink.errors import SinkFailed
from everlog.spark.sink.names import new_task_id
from everlog.spark.sink.options import SinkOptions

_KEPT = 16
"""So many idle producers are kept; a process seldom serves that many queries or tasks at a time."""
_CLOSE_S = 5.0
_MAX_TIMEOUT = "transaction.max.timeout.ms"


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Which batch of which query a task belongs to."""

    query: str
    run: str
    """One start of the query: it is another after each restart."""
    batch: int
    named: bool = True
    """False for a batch write without a name: that it is committed is announced, not decided."""


@dataclass(slots=True)
class _Lent:
    producer: Producer
    options: SinkOptions
    place: BatchPlace


class ProducerPool:
    """Lends producers to tasks; several threads may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Lent] = []
        self._plain: dict[tuple[object, ...], Producer] = {}

    def plain(self, options: SinkOptions) -> Producer:
        """The producer without transactions; it is shared."""
        with self._lock:
            found = self._plain.get(_connection(options))
            if found is None:
                found = Producer(options.bootstrap_servers, **_settings(options))
                self._plain[_connection(options)] = found
            return found

    def drop_plain(self, options: SinkOptions) -> None:
        """Make a new one next time."""
        with self._lock:
            found = self._plain.pop(_connection(options), None)
        if found is not None:
            found.close(0)

    def lend(self, options: SinkOptions, place: BatchPlace) -> Producer:
        """A producer that has its transactional id and no transaction; `give_back` it, or `drop` it."""
        with self._lock:
            found = next((one for one in self._idle if _fits(one, options, place)), None)
            if found is not None:
                self._idle.remove(found)
        if found is None:
            return _opened(options, place)
        try:
            found.producer.init_transactions()
        except EverlogError:
            self.drop(found.producer)
            return _opened(options, place)
        return found.producer

    def give_back(self, producer: Producer, options: SinkOptions, place: BatchPlace) -> None:
        """Keep a producer for a later batch; its transaction stays open for the driver to end."""
        with self._lock:
            self._idle.append(_Lent(producer, options, place))
            old = [one for one in self._idle if _is_past(one, place)]
            old += self._idle[: max(0, len(self._idle) - len(old) - _KEPT)]
            self._idle = [one for one in self._idle if one not in old]
        for one in old:
            self.drop(one.producer)

    def drop(self, producer: Producer) -> None:
        """Part with a producer. A transaction that it has prepared stays open, any other is aborted."""
        producer.close(_CLOSE_S)


def _connection(options: SinkOptions) -> tuple[object, ...]:
    """What makes a client another one. Topic and number of a write do not, and may change with each."""
    return options.bootstrap_servers, options.producer


def _fits(one: _Lent, options: SinkOptions, place: BatchPlace) -> bool:
    same = (one.place.query, one.place.run) == (place.query, place.run)
    return same and one.place.batch < place.batch and one.options == options


def _is_past(one: _Lent, place: BatchPlace) -> bool:
    return one.place.query == place.query and one.place.run != place.run


def _settings(options: SinkOptions) -> ProducerOptions:
    made: ProducerOptions = {}
    # Rows come in tables, so batches are full without waiting for more of them.
    made["linger_ms"] = 0
    made.update(dict(options.producer))  # type: ignore[typeddict-item]  # names and types were checked
    return made


def _opened(options: SinkOptions, place: BatchPlace) -> Producer:
    timeout_ms = options.transaction_timeout_ms
    try:
        return _opened_with(options, place, timeout_ms)
    except Refused as error:
        if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise
        most = _longest_timeout_ms(options)
        if options.transaction_timeout_given or most is None or most >= timeout_ms:
            raise SinkFailed(
                f"option kafka.transaction.timeout.ms={timeout_ms}: the cluster takes at most {most}, its "
                "transaction.max.timeout.ms"
            ) from None
        return _opened_with(options, place, most)


def _opened_with(options: SinkOptions, place: BatchPlace, timeout_ms: int) -> Producer:
    settings = _settings(options)
    settings["transactional_id"] = new_task_id(place.query)
    settings["transaction_timeout_ms"] = timeout_ms
    return taken_over(options, settings)


def taken_over(options: SinkOptions, settings: ProducerOptions) -> Producer:
    """A producer that has its transactional id; whoever had it is fenced. Closed again where that fails."""
    producer = Producer(options.bootstrap_servers, **settings)
    try:
        producer.init_transactions()
    except BaseException:
        producer.close(0)
        raise
    return producer


def _longest_timeout_ms(options: SinkOptions) -> int | None:
    """The shortest `transaction.max.timeout.ms` of all brokers: any of them may be the coordinator."""
    with Admin(options.bootstrap_servers, **options.admin) as admin:
        brokers = [ConfigResource.broker(one.node_id) for one in admin.describe_cluster().brokers]
        found = admin.describe_configs(brokers, keys=[_MAX_TIMEOUT])
        values = [one[_MAX_TIMEOUT].value for one in found.values() if _MAX_TIMEOUT in one]
        return min((int(value) for value in values if value is not None), default=None)


def kept_admin(options: SinkOptions) -> Admin:
    """The one of this process for that cluster and these settings."""
    return _admin(options.bootstrap_servers, tuple(sorted(options.admin.items())))


@cache
def _admin(bootstrap: str, settings: tuple[tuple[str, Any], ...]) -> Admin:
    return Admin(bootstrap, **dict(settings))


POOL = ProducerPool()
"""That of this process."""
