"""Metadata, versions 0 to 13.

0 takes an empty list as all topics; from 1 on null is all and an empty list none. 1 tells racks, the
controller and which topics are internal, 2 the cluster id, 4 lets the client forbid that topics are created,
5 tells offline replicas, 7 leader epochs, 8 what the client may do, 9 is flexible, 10 tells topic ids, 11 no
longer tells what it may do with the cluster, 12 asks by topic id, 13 has an error for the whole answer.

A topic that is asked for by name and is not there is created if both sides want it; the answer then waits for
the creation and has the topic, where Kafka would answer with an error to be tried again. What a request wants
beyond `MOST_CREATED` topics is answered like that here too.
"""

from typing import TYPE_CHECKING

from everlog.broker.access import NOT_ASKED, cluster_operations, topic_operations
from everlog.broker.exchange import Exchange
from everlog.broker.topic_maker import Outcomes
from everlog.broker.visibility import Visibility
from everlog.controller.decisions import Refusal
from everlog.controller.topics import NewTopic
from everlog.metadata.image import TopicImage
from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.settings import broker_table as keys
from everlog.model.topics import INTERNAL_TOPICS, METADATA_TOPIC, topic_name_problem
from everlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_NULL_FOR_ALL = 1
_FIRST_WITH_LISTENER_ERROR = 6
_FIRST_BY_ID = 12
MOST_CREATED = 100
"""How many topics one request makes. Whoever wants more asks again for those that it is told to wait for."""
_NOT_NOW = Refusal(ErrorCode.LEADER_NOT_AVAILABLE, f"a request makes {MOST_CREATED} topics at the most")
_PASSING = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})


def handle(broker: "Broker", request: MetadataRequest, exchange: Exchange) -> None:
    """Tell brokers, and the topics asked for with their partitions and leaders."""
    missing = _to_create(broker, request, exchange.api_version)
    if not missing:
        exchange.answer(_answer(broker, request, exchange, {}))
        return

    later = dict.fromkeys(missing[MOST_CREATED:], _NOT_NOW)

    def done(outcomes: Outcomes) -> None:
        exchange.answer(_answer(broker, request, exchange, {**outcomes, **later}))

    broker.coordinators.topic_maker.make([NewTopic(name) for name in missing[:MOST_CREATED]], done)


def _to_create(broker: "Broker", request: MetadataRequest, version: int) -> list[str]:
    """The topics that are to be created before the answer."""
    if not request.topics or not request.allow_auto_topic_creation:
        return []
    if not broker.settings[keys.AUTO_CREATE_TOPICS_ENABLE] or _misuses_ids(request, version):
        return []
    names = dict.fromkeys(topic.name for topic in request.topics if topic.topic_id == NO_UUID)
    return [
        name
        for name in names
        if name is not None
        and name not in broker.image.topics
        # Who made an internal topic by asking for it would make it with the wrong settings.
        and name not in INTERNAL_TOPICS
        and name != METADATA_TOPIC
        and topic_name_problem(name) is None
    ]


def _answer(
    broker: "Broker", request: MetadataRequest, exchange: Exchange, created: Outcomes
) -> MetadataResponse:
    version = exchange.api_version
    listener = exchange.listener_name
    view = Visibility(broker.image, lambda one: broker.listener_endpoint(listener, one))
    topics = _Topics(broker, view, version, asked=request.include_topic_authorized_operations)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.id, host=host, port=port, rack=broker.rack)
            for broker, host, port in view.brokers
        ],
        cluster_id=broker.cluster_id,
        controller_id=view.any_broker(broker.node_id),
        topics=topics.all() if _wants_all(request, version) else topics.asked_for(request, created),
        cluster_authorized_operations=cluster_operations(asked=request.include_cluster_authorized_operations),
    )


def _wants_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version < _FIRST_WITH_NULL_FOR_ALL and not request.topics)


def _misuses_ids(request: MetadataRequest, version: int) -> bool:
    """Whether a request asks by id in a version that has ids but cannot ask by them."""
    return version < _FIRST_BY_ID and any(
        topic.name is None or topic.topic_id != NO_UUID for topic in request.topics or ()
    )


class _Topics:
    """Makes the topics of one answer."""

    def __init__(self, broker: "Broker", view: Visibility, version: int, *, asked: bool) -> None:
        self._image = broker.image
        self._view = view
        self._version = version
        self._operations = topic_operations(asked=asked)

    def all(self) -> list[MetadataResponseTopic]:
        """Every topic there is."""
        return [self._found(topic) for topic in self._image.topics.values()]

    def asked_for(self, request: MetadataRequest, created: Outcomes) -> list[MetadataResponseTopic]:
        """Each topic asked for, once, with an error where it cannot be told."""
        wanted = request.topics or []
        if _misuses_ids(request, self._version):
            return [_missing(one.name or "", one.topic_id, ErrorCode.INVALID_REQUEST) for one in wanted]
        distinct = {(one.name, one.topic_id): one for one in wanted}
        return [self._one(topic, created) for topic in distinct.values()]

    def _one(self, wanted: MetadataRequestTopic, created: Outcomes) -> MetadataResponseTopic:
        if wanted.topic_id != NO_UUID:
            by_id = self._image.topics_by_id.get(wanted.topic_id)
            if by_id is None:
                return _missing(None, wanted.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
            return self._found(by_id)
        name = wanted.name
        if name is None:
            return _missing(None, NO_UUID, ErrorCode.UNKNOWN_TOPIC_ID)
        topic = self._image.topics.get(name)
        if topic is not None:
            return self._found(topic)
        if topic_name_problem(name) is not None:
            return _missing(name, NO_UUID, ErrorCode.INVALID_TOPIC_EXCEPTION)
        outcome = created.get(name)
        return _missing(
            name, NO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if outcome is None else _code(outcome)
        )

    def _found(self, topic: TopicImage) -> MetadataResponseTopic:
        view = self._view
        partitions: list[MetadataResponsePartition] = []
        for number, partition in enumerate(topic.partitions):
            error, leader = view.leader(partition)
            if error is ErrorCode.LISTENER_NOT_FOUND and self._version < _FIRST_WITH_LISTENER_ERROR:
                error = ErrorCode.LEADER_NOT_AVAILABLE
            partitions.append(
                MetadataResponsePartition(
                    error_code=error,
                    partition_index=number,
                    leader_id=leader,
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=list(partition.replicas),
                    isr_nodes=list(partition.isr),
                    offline_replicas=view.offline(partition),
                )
            )
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=partitions,
            topic_authorized_operations=self._operations,
        )


def _code(refusal: Refusal) -> ErrorCode:
    # A creation that the disk refused, or that no controller was there for, may work in a moment; that is
    # how clients read this code.
    return ErrorCode.LEADER_NOT_AVAILABLE if refusal.code in _PASSING else refusal.code


def _missing(name: str | None, topic_id: Uuid, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, topic_authorized_operations=NOT_ASKED
    )
