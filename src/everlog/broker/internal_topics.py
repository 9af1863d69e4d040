"""The topics that coordinators keep their state in: made at first use, with settings of their own.

A broker that is alone, its own only controller, gives them as many replicas as it can: one. In a cluster they
have as many as the settings say, as in Kafka, and are not made before so many brokers are there: a topic that
was made with too few while the cluster started would keep them for ever.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from everlog.broker.topic_maker import Outcomes, TopicMaker
from everlog.controller.decisions import Refusal
from everlog.controller.topics import NewTopic
from everlog.coordinator.partitions import OFFSETS_TOPIC, TXN_TOPIC
from everlog.model.errors import ErrorCode, Refused
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.model.settings.kinds import Setting

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_LEAST_SEGMENT_BYTES = 1 << 20
"""The smallest `segment.bytes` that a topic takes."""

Done = Callable[[Refused | None], None]


class InternalTopics:
    """Makes internal topics; those who ask for one meanwhile wait for the same one."""

    def __init__(self, broker: "Broker", maker: TopicMaker) -> None:
        self._broker = broker
        self._maker = maker
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
        settings, image = self._broker.settings, self._broker.image
        topic = wanted_topic(name, settings, sum(1 for _ in image.active_brokers()))
        if topic.replication_factor > len(image.brokers):
            # Clients ask again and again meanwhile; the controller need not hear of it each time.
            problem = f"{topic.replication_factor} replicas are wanted, found {len(image.brokers)} brokers"
            done(_not_available(name, problem))
            return
        self._waiting[name] = [done]
        self._maker.make([topic], lambda outcomes: self._ended(name, outcomes))

    def _ended(self, name: str, outcomes: Outcomes) -> None:
        one = outcomes[name]
        refusal = None
        if one is not None and one.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            refusal = _not_available(name, _why(one))
        for done in self._waiting.pop(name):
            done(refusal)


def wanted_topic(name: str, settings: BrokerSettings, brokers: int) -> NewTopic:
    """The topic as it is to be made; where nobody else is expected, for the brokers that there are."""
    if name == OFFSETS_TOPIC:
        factor = _replication_factor(settings, keys.OFFSETS_TOPIC_REPLICATION_FACTOR, brokers)
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
    factor = _replication_factor(settings, keys.TRANSACTION_STATE_LOG_REPLICATION_FACTOR, brokers)
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


def _replication_factor(settings: BrokerSettings, setting: Setting[int], brokers: int) -> int:
    controllers = {voter.id for voter in settings.voters}
    is_alone = controllers <= {settings.node_id} and not settings[keys.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]
    return min(settings[setting], max(brokers, 1)) if is_alone else settings[setting]


def _why(refusal: Refusal) -> str:
    return refusal.message or refusal.code.name


def _segment_bytes(wanted: int) -> str:
    """A broker may be told less than a topic may have, and there would be no coordinator at all then."""
    return str(max(wanted, _LEAST_SEGMENT_BYTES))


def _not_available(name: str, message: str) -> Refused:
    return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the topic {name} cannot be made: {message}")
