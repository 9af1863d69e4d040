"""The topics that coordinators keep their state in: made at first use, with settings of their own."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from everlog.controller.decisions import Refusal
from everlog.controller.topics import CreateTopics, NewTopic, TopicCreated
from everlog.coordinator.partitions import OFFSETS_TOPIC, TXN_TOPIC
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_LEAST_SEGMENT_BYTES = 1 << 20
"""The smallest `segment.bytes` that a topic takes."""

Done = Callable[[Refused | None], None]


class InternalTopics:
    """Makes internal topics; those who ask for one meanwhile wait for the same one."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._waiting: dict[str, list[Done]] = {}

    def ensure(self, name: str, done: Done) -> None:
        """Call `done` once the topic is there, which may be now; or with why it is not: try again later."""
        if name in self._broker.image.topics:
            done(None)
            return
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.append(done)
            return
        self._waiting[name] = [done]
        brokers = sum(1 for _ in self._broker.image.active_brokers())
        topic = wanted_topic(name, self._broker.settings, brokers)
        self._broker.controller.submit(
            CreateTopics((topic,)),
            lambda reply: self._ended(name, reply),
        )

    def _ended(self, name: str, reply: dict[str, TopicCreated | Refusal] | Refused | StorageError) -> None:
        refusal = None
        if isinstance(reply, Refused | StorageError):
            refusal = _not_available(name, str(reply))
        else:
            one = reply[name]
            if isinstance(one, Refusal) and one.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                refusal = _not_available(name, one.message)
        for done in self._waiting.pop(name):
            done(refusal)


def wanted_topic(name: str, settings: BrokerSettings, brokers: int) -> NewTopic:
    """The topic as it is to be made; no more replicas than there are brokers."""
    if name == OFFSETS_TOPIC:
        factor = min(settings[keys.OFFSETS_TOPIC_REPLICATION_FACTOR], max(brokers, 1))
        return NewTopic(
            name,
            settings[keys.OFFSETS_TOPIC_NUM_PARTITIONS],
            factor,
            configs=(
                ("cleanup.policy", "compact"),
                ("compression.type", "producer"),
                ("segment.bytes", _segment_bytes(settings[keys.OFFSETS_TOPIC_SEGMENT_BYTES])),
            ),
        )
    assert name == TXN_TOPIC, name
    factor = min(settings[keys.TRANSACTION_STATE_LOG_REPLICATION_FACTOR], max(brokers, 1))
    return NewTopic(
        name,
        settings[keys.TRANSACTION_STATE_LOG_NUM_PARTITIONS],
        factor,
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", "uncompressed"),
            ("min.insync.replicas", str(min(settings[keys.TRANSACTION_STATE_LOG_MIN_ISR], factor))),
            ("segment.bytes", _segment_bytes(settings[keys.TRANSACTION_STATE_LOG_SEGMENT_BYTES])),
            ("unclean.leader.election.enable", "false"),
        ),
    )


def _segment_bytes(wanted: int) -> str:
    """A broker may be told less than a topic may have, and there would be no coordinator at all then."""
    return str(max(wanted, _LEAST_SEGMENT_BYTES))


def _not_available(name: str, message: str) -> Refused:
    return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the topic {name} cannot be made: {message}")
