"""DeleteTopics, versions 1 to 6.

3 may answer that deletion is disabled (before it, that is an invalid request), 4 is flexible, 5 answers with
messages, 6 names topics by name or by id.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.controller.decisions import Refusal
from everlog.controller.topics import DeleteTopics
from everlog.metadata.image import TopicImage
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from everlog.broker.desk.desk import Desk

_FIRST_WITH_DISABLED = 3
_FIRST_WITH_IDS = 6


def handle(desk: "Desk", request: DeleteTopicsRequest, exchange: Exchange) -> None:
    """Delete the topics that can be deleted and say of each what became of it."""
    version = exchange.api_version
    states = (
        request.topics
        if version >= _FIRST_WITH_IDS
        else [DeleteTopicState(name=name) for name in request.topic_names]
    )
    named = [(state, _wanted(state)) for state in states]
    wanted = tuple(one for _, one in named if one is not None)

    def done(reply: list[TopicImage | Refusal] | Refused | StorageError) -> None:
        outcomes = iter(reply if isinstance(reply, list) else [Refusal.of(reply)] * len(wanted))
        exchange.answer(
            DeleteTopicsResponse(
                responses=[
                    _result(state, _AMBIGUOUS if one is None else next(outcomes), version)
                    for state, one in named
                ]
            )
        )

    desk.controller.submit(DeleteTopics(wanted), done)


_AMBIGUOUS = Refusal(ErrorCode.INVALID_REQUEST, "expected either the name of a topic or its id")


def _wanted(state: DeleteTopicState) -> str | Uuid | None:
    if state.topic_id == NO_UUID:
        return state.name
    return None if state.name is not None else state.topic_id


def _result(state: DeleteTopicState, outcome: TopicImage | Refusal, version: int) -> DeletableTopicResult:
    if isinstance(outcome, TopicImage):
        return DeletableTopicResult(name=outcome.name, topic_id=outcome.id)
    code = outcome.code
    if code is ErrorCode.TOPIC_DELETION_DISABLED and version < _FIRST_WITH_DISABLED:
        code = ErrorCode.INVALID_REQUEST
    return DeletableTopicResult(
        name=state.name, topic_id=state.topic_id, error_code=code, error_message=outcome.message
    )
