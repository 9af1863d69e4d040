"""ControllerRegistration, version 0."""

from everlog.broker.desk.seat import Seat
from everlog.broker.exchange import Exchange
from everlog.controller.controllers import RegisterController
from everlog.controller.decisions import Refusal
from everlog.metadata.image import Endpoint
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


def handle(desk: Seat, request: ControllerRegistrationRequest, exchange: Exchange) -> None:
    """Take note of a controller."""

    def done(reply: Refused | StorageError | None) -> None:
        refusal = None if reply is None else Refusal.of(reply)
        exchange.answer(
            ControllerRegistrationResponse(
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
            )
        )

    command = RegisterController(
        request.controller_id,
        request.incarnation_id,
        tuple(Endpoint(one.name, one.host, one.port, one.security_protocol) for one in request.listeners),
        {one.name: (one.min_supported_version, one.max_supported_version) for one in request.features},
    )
    desk.controller.submit(command, done)
