"""Envelope, version 0: a client's request that another broker hands on (KIP-590).

The request inside is served as if its client had sent it here, and the whole answer frame travels back inside
the answer. An error of the envelope itself says that the request inside was not served at all.
"""

from collections.abc import Mapping
from struct import Struct, error
from typing import Final, Protocol

from everlog.broker.controller_channel import LocalDesk
from everlog.broker.direct_exchange import DirectExchange
from everlog.broker.error_answers import says_not_active
from everlog.broker.exchange import Exchange
from everlog.broker.forwarding import FORWARDED, PRINCIPAL_VERSION, unpacked_host
from everlog.broker.request_limits import decode_limited
from everlog.model.errors import ErrorCode, ProtocolError
from everlog.wire.codec import (
    UnsupportedVersionError,
    decode_value,
    encode_response,
    read_request_header,
)
from everlog.wire.frames import SIZE_BYTES
from everlog.wire.message import Message
from everlog.wire.messages.default_principal_data import DefaultPrincipalData
from everlog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

_PREFIX: Final = Struct(">h")


class ServingDesk(LocalDesk, Protocol):
    """A desk that says what it serves."""

    @property
    def advertised(self) -> Mapping[int, tuple[int, int]]:
        """API key to versions."""
        ...


def handle(desk: ServingDesk, request: EnvelopeRequest, exchange: Exchange) -> None:
    """Serve the request inside; answer with its answer, or with why it cannot be served."""
    try:
        peer_host = unpacked_host(request.client_host_address)
        header = read_request_header(request.request_data)
        inside = decode_limited(header, request.request_data)
    except UnsupportedVersionError:
        exchange.answer(EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    except (ProtocolError, ValueError):
        exchange.answer(EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    if header.api_key not in FORWARDED or header.api_key not in desk.advertised:
        exchange.answer(EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    if not _is_principal(request.request_principal):
        exchange.answer(EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE))
        return

    def answered(answer: Message | bytes | None) -> None:
        exchange.answer(_sealed(answer, header.api_version, header.correlation_id))

    desk.serve(
        inside,
        DirectExchange(
            header.api_version,
            answered,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            origin=exchange,
            peer_host=peer_host,
        ),
    )


def _sealed(answer: Message | bytes | None, version: int, correlation_id: int) -> EnvelopeResponse:
    if answer is None:
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    if isinstance(answer, Message):
        if says_not_active(answer):
            # The broker that has sent it looks for the controller again, and its client hears nothing of it.
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        answer = encode_response(answer, version, correlation_id)
    return EnvelopeResponse(response_data=answer[SIZE_BYTES:])


def _is_principal(data: bytes | None) -> bool:
    """Whether it can be read who has asked; None where nobody has to say who they are."""
    if data is None:
        return True
    try:
        (version,) = _PREFIX.unpack_from(data)
        if version == PRINCIPAL_VERSION:
            decode_value(DefaultPrincipalData, version, data[_PREFIX.size :])
            return True
    except (error, ProtocolError):
        pass
    return False
