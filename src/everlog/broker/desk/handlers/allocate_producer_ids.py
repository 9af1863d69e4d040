"""AllocateProducerIds, version 0."""

from everlog.broker.desk.seat import Seat
from everlog.broker.exchange import Exchange
from everlog.controller.decisions import Refusal
from everlog.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import BrokerId
from everlog.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


def handle(desk: Seat, request: AllocateProducerIdsRequest, exchange: Exchange) -> None:
    """Give the broker a block of ids that nobody has had."""

    def done(reply: ProducerIdBlock | Refused | StorageError) -> None:
        if isinstance(reply, ProducerIdBlock):
            exchange.answer(
                AllocateProducerIdsResponse(producer_id_start=reply.first, producer_id_len=reply.size)
            )
        else:
            exchange.answer(AllocateProducerIdsResponse(error_code=Refusal.of(reply).code))

    command = AllocateProducerIds(BrokerId(request.broker_id), request.broker_epoch)
    desk.controller.submit(command, done)
