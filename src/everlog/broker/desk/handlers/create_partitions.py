"""CreatePartitions, versions 0 to 3. 2 is flexible, 3 may answer that a quota is exceeded (there is none)."""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.controller.decisions import Refusal
from everlog.controller.partitions import CreatePartitions, MorePartitions
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from everlog.broker.desk.desk import Desk


def handle(desk: "Desk", request: CreatePartitionsRequest, exchange: Exchange) -> None:
    """Add partitions to the topics that can have them and say of each what became of it."""

    def done(reply: dict[str, Refusal | None] | Refused | StorageError) -> None:
        if not isinstance(reply, dict):
            refusal = Refusal.of(reply)
            reply = {topic.name: refusal for topic in request.topics}
        exchange.answer(
            CreatePartitionsResponse(results=[_result(name, refusal) for name, refusal in reply.items()])
        )

    topics = tuple(_more_partitions(topic) for topic in request.topics)
    desk.controller.submit(CreatePartitions(topics, request.validate_only), done)


def _more_partitions(topic: CreatePartitionsTopic) -> MorePartitions:
    assignments = topic.assignments
    return MorePartitions(
        name=topic.name,
        count=topic.count,
        assignments=None if assignments is None else tuple(tuple(one.broker_ids) for one in assignments),
    )


def _result(name: str, refusal: Refusal | None) -> CreatePartitionsTopicResult:
    if refusal is None:
        return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
    return CreatePartitionsTopicResult(name=name, error_code=refusal.code, error_message=refusal.message)
