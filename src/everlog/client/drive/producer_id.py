"""Asks for the id under which an idempotent producer's batches are told from their retries (P4)."""

import math

from everlog.client.core.errors import error_code, refusal
from everlog.client.core.producer.identity import ProducerIdentity
from everlog.client.drive.link import ClusterLink
from everlog.model.errors import ErrorCode, EverlogError
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def new_identity(link: ClusterLink) -> ProducerIdentity:
    """A producer id that nobody else has, asked for as long as it may help; the batches have time limits."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    backoff = link.backoff()
    while True:
        try:
            answer = await link.ask(request, InitProducerIdResponse)
            if error_code(answer.error_code) is ErrorCode.NONE:
                return ProducerIdentity(answer.producer_id, answer.producer_epoch)
            raise refusal(answer.error_code, None, "a producer id for idempotence")
        except EverlogError as error:
            if not error.retriable or not await link.pause(backoff, math.inf):
                raise
