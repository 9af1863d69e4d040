"""CreateTopics, versions 2 to 7.

4 lets partitions and replication factor be -1 for the defaults (older clients that send it get them too),
5 is flexible and answers with the configs of each topic, 6 may answer that a quota is exceeded (there is none
here), 7 answers with topic ids. The answer leaves when the topics are durable, whatever the time-out says:
that is sooner than any time-out that a client sets.
"""

from typing import TYPE_CHECKING

from everlog.broker.config_entries import broker_layers, topic_entries
from everlog.broker.exchange import Exchange
from everlog.controller.decisions import Refusal, check_not_too_many
from everlog.controller.topics import CreateTopics, NewTopic, TopicCreated
from everlog.model.errors import Refused, StorageError
from everlog.model.settings import Layers
from everlog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from everlog.broker.desk.desk import Desk

Reply = dict[str, TopicCreated | Refusal]


def handle(desk: "Desk", request: CreateTopicsRequest, exchange: Exchange) -> None:
    """Create the topics that can be created and say of each what became of it."""

    def done(reply: Reply | Refused | StorageError) -> None:
        if not isinstance(reply, dict):
            refusal = Refusal.of(reply)
            reply = {topic.name: refusal for topic in request.topics}
        layers = broker_layers(desk.static_settings, desk.image, desk.node_id)
        exchange.answer(
            CreateTopicsResponse(topics=[_result(name, outcome, layers) for name, outcome in reply.items()])
        )

    try:
        check_not_too_many(request.topics, "topics")
    except Refused as refused:
        done(refused)
        return
    topics = tuple(_new_topic(topic) for topic in request.topics)
    desk.controller.submit(CreateTopics(topics, request.validate_only), done)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((one.partition_index, tuple(one.broker_ids)) for one in topic.assignments),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )


def _result(name: str, outcome: TopicCreated | Refusal, layers: Layers) -> CreatableTopicResult:
    if isinstance(outcome, Refusal):
        return CreatableTopicResult(name=name, error_code=outcome.code, error_message=outcome.message)
    return CreatableTopicResult(
        name=name,
        topic_id=outcome.id,
        error_message=None,
        num_partitions=outcome.partitions,
        replication_factor=outcome.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in topic_entries(outcome.configs, layers)
        ],
    )
