"""Frames to messages and back, by API key and version; and the values and keys that logs keep.

A frame is given and read without its size field, and made with it. The function for one version of a message
is made when it is first needed, and kept. Decoders keep to these budgets, and break off with a ProtocolError
that names the message, the field and the value before anything is allocated for it:

- a length is at most what is left of the frame; a string has at most 32,767 bytes and is UTF-8;
- a count is at most what is left divided by the least size of an element, and all elements and tagged fields
  of a message together are at most `max_elements`;
- structs nest as deep as their schema has them, at most five deep: a struct that holds itself is no schema;
- a struct has at most 1,000 tagged fields, with tags going up, and unknown ones are skipped;
- a varint has at most 5 bytes, null stands only where the version allows it;
- nothing comes after an answer or a value.
"""

import struct
from collections.abc import Callable
from functools import partial
from importlib import import_module
from sys import modules
from types import FunctionType
from typing import Final, NamedTuple, TypeVar, cast

from everlog.model.errors import ErrorCode, ProtocolError
from everlog.wire import decoding, encoding, schemas
from everlog.wire.apis import Api, ApiKey, api_of
from everlog.wire.message import Message, Records
from everlog.wire.primitives import Malformed, UnencodableError, skip_tags
from everlog.wire.source import field_at_fault

__all__ = [
    "MAX_ELEMENTS",
    "RequestHeader",
    "UnencodableError",
    "UnsupportedVersionError",
    "decode_request",
    "decode_response",
    "decode_value",
    "encode_request",
    "encode_request_pieces",
    "encode_response",
    "encode_value",
    "is_too_new_api_versions",
    "read_request_header",
    "too_new_api_versions",
]

MAX_ELEMENTS: Final = 1_000_000
"""Elements of arrays and tagged fields that one message may have in all."""

_HEADER_TAGS: Final = 1_000

_LARGE_PIECE_BYTES: Final = 8 * 1024
"""From here on a copy costs more than one more buffer in the list."""

_M = TypeVar("_M", bound=Message)
_Decoder = Callable[[Records, int, int, bool], Message]
_Encoder = Callable[[Message, Callable[[Records], object]], None]

_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
_REQUEST_START: Final = struct.Struct(">hhih")
_INT32: Final = struct.Struct(">i")


class UnsupportedVersionError(ProtocolError):
    """A request for an API that we do not have, or in a version of it that we do not have."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        api = api_of(api_key)
        known = (
            "no such API is known"
            if api is None
            else f"{api.name} has {api.min_version} to {api.max_version}"
        )
        super().__init__(f"request for API {api_key} in version {api_version}: {known}")
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


class RequestHeader(NamedTuple):
    """What opens a request, and where in the frame its body begins."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def read_request_header(frame: Records) -> RequestHeader:
    """Read what opens a request.

    An API or version that we lack is an UnsupportedVersionError. ApiVersions in a version that is too new is
    not: its header is returned, with the body at the end of the frame; answer with `too_new_api_versions`.
    """
    try:
        key, version, correlation_id, length = _REQUEST_START.unpack_from(frame)
        client_id: str | None = None
        at = 10
        if length >= 0:
            at += length
            if at > len(frame):
                raise Malformed(f"client id of {length} bytes, {len(frame) - 10} are left")
            client_id = str(frame[10:at], "utf-8")
        elif length != -1:
            raise Malformed(f"client id of length {length}")
        api = api_of(key)
        if api is None or not api.has(version):
            if key == ApiKey.API_VERSIONS and version > 0:
                return RequestHeader(ApiKey.API_VERSIONS, version, correlation_id, client_id, len(frame))
            raise UnsupportedVersionError(key, version, correlation_id)
        if version >= api.flexible_from:
            tags = frame[at]
            at += 1
            if tags:
                view = frame if isinstance(frame, memoryview) else memoryview(frame)
                at, _ = skip_tags(view, at, tags, _HEADER_TAGS)
    except (struct.error, IndexError, ValueError) as error:
        raise ProtocolError(f"request header in a frame of {len(frame)} bytes: {error}") from error
    return RequestHeader(api.key, version, correlation_id, client_id, at)


def is_too_new_api_versions(header: RequestHeader) -> bool:
    """Whether this is an ApiVersions request in a version that we lack; its body cannot be read."""
    return (
        header.api_key == ApiKey.API_VERSIONS and header.api_version > _api(ApiKey.API_VERSIONS).max_version
    )


def too_new_api_versions(correlation_id: int) -> bytes:
    """Return the frame that answers ApiVersions in a version that is too new: version 0, error 35, our range.

    Clients then ask again on the same connection, in a version that they find in it (KIP-511).
    """
    api = _api(ApiKey.API_VERSIONS)
    body = struct.pack(">hihhh", ErrorCode.UNSUPPORTED_VERSION, 1, api.key, api.min_version, api.max_version)
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def decode_request(header: RequestHeader, frame: Records, max_elements: int = MAX_ELEMENTS) -> Message:
    """Read the body that follows the header; records in it stay views of the frame, all else is copied.

    What comes after the body is ignored, as Kafka does: librdkafka 2.16 asks for all topics with a count of
    four bytes where one is due, and leaves three bytes behind.
    """
    key = header.api_key << 16 | header.api_version
    decode = _request_decoders.get(key)
    if decode is None:
        decode = _request_decoders[key] = _decoder(
            _message_type(_api(header.api_key), "Request"), header.api_version
        )
    return decode(frame, header.body_at, max_elements, False)


def encode_response(message: Message, api_version: int, correlation_id: int) -> bytes:
    """Return the whole frame of an answer: size, header and body."""
    body = encode_value(message, api_version)
    if _api(message.KEY).has_flexible_answer_header(api_version):
        return struct.pack(">iix", 5 + len(body), correlation_id) + body
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def encode_request(message: Message, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the whole frame of a request: size, header and body."""
    api = _api(message.KEY)
    body = encode_value(message, api_version)
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    tags = b"\0" if api.is_flexible(api_version) else b""
    size = 10 + len(name) + len(tags) + len(body)
    head = struct.pack(">ihhih", size, api.key, api_version, correlation_id, length)
    return b"".join((head, name, tags, body))


def encode_request_pieces(
    message: Message, api_version: int, correlation_id: int, client_id: str | None
) -> list[Records]:
    """Return the frame of a request as buffers to be written one after another.

    Large record batches are among them as they are, not copied: they must not change until the answer is in.
    """
    api = _api(message.KEY)
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    pieces: list[Records] = [b"", name, b"\0" if api.is_flexible(api_version) else b""]
    _encoder(type(message), api_version)(message, pieces.append)
    size = 10 + sum(map(len, pieces))
    pieces[0] = struct.pack(">ihhih", size, api.key, api_version, correlation_id, length)
    if size < _LARGE_PIECE_BYTES:
        return [b"".join(pieces)]
    merged: list[Records] = []
    run: list[Records] = []
    for piece in pieces:
        if len(piece) < _LARGE_PIECE_BYTES:
            run.append(piece)
            continue
        if run:
            merged.append(b"".join(run))
            run = []
        merged.append(piece)
    if run:
        merged.append(b"".join(run))
    return merged


def decode_response(
    api_key: int, api_version: int, frame: Records, max_elements: int = MAX_ELEMENTS
) -> tuple[int, Message]:
    """Return the correlation id of an answer, and the answer to a request of this key and version.

    A broker that is older than an ApiVersions request answers it in version 0 with error 35 (KIP-511). That
    is understood here, so check the error code before anything else.
    """
    api = _api(api_key)
    if api.key == ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
        api_version = 0
    key = api.key << 16 | api_version
    decode = _response_decoders.get(key)
    if decode is None:
        decode = _response_decoders[key] = _decoder(_message_type(api, "Response"), api_version)
    try:
        correlation_id: int
        (correlation_id,) = _INT32.unpack_from(frame)
        at = 4
        if api.has_flexible_answer_header(api_version):
            tags = frame[at]
            at += 1
            if tags:
                at, _ = skip_tags(memoryview(frame), at, tags, _HEADER_TAGS)
    except (struct.error, IndexError, ValueError) as error:
        raise ProtocolError(
            f"header of {api.name} answer in a frame of {len(frame)} bytes: {error}"
        ) from error
    return correlation_id, decode(frame, at, max_elements, True)


def encode_value(message: Message, version: int) -> bytes:
    """Return the message alone, without header or size, as logs keep it and as other messages embed it."""
    pieces: list[Records] = []
    _encoder(type(message), version)(message, pieces.append)
    return b"".join(pieces)


def decode_value(kind: type[_M], version: int, data: Records, max_elements: int = MAX_ELEMENTS) -> _M:
    """Read a message of a known type that takes up all of the data."""
    message = _decoder(kind, version)(data, 0, max_elements, True)
    assert isinstance(message, kind)
    return message


_request_decoders: dict[int, _Decoder] = {}
_response_decoders: dict[int, _Decoder] = {}
_decoders: dict[tuple[type[Message], int], _Decoder] = {}
_encoders: dict[tuple[type[Message], int], _Encoder] = {}


def _api(key: int | None) -> Api:
    api = None if key is None else api_of(key)
    if api is None:
        raise UnencodableError(f"no API has the key {key}")
    return api


def _message_type(api: Api, suffix: str) -> type[Message]:
    module = import_module(f"everlog.wire.messages.{api.module}")
    kind: type[Message] = getattr(module, api.name + suffix)
    return kind


def _class_of(kind: type[Message], name: str) -> type:
    found: type = getattr(modules[kind.__module__], name)
    return found


def _decoder(kind: type[Message], version: int) -> _Decoder:
    known = _decoders.get((kind, version))
    if known is not None:
        return known
    schema = schemas.find(kind.FAMILY, kind.__name__)
    if not schema.versions.has(version):
        raise ProtocolError(f"{schema.name} has no version {version}, only {schema.versions}")
    title = f"{schema.name} v{version}"
    source = decoding.decoder_source(schema, version, partial(_class_of, kind))
    function, fields = source.function(f"decode {title}")
    # Slices of bytes are cheaper than slices of a view, but records must not be copied.
    convert = memoryview if decoding.reads_views(schema, version) else bytes
    made = _decoders[kind, version] = _guard_decoder(function, convert, fields, title)
    return made


def _guard_decoder(
    function: FunctionType, convert: Callable[[Records], object], fields: tuple[str, ...], title: str
) -> _Decoder:
    read = cast(Callable[[object, int, int], tuple[Message, int]], function)

    def decode(frame: Records, at: int, max_elements: int, whole: bool) -> Message:
        try:
            message, end = read(convert(frame), at, max_elements)
        except (ValueError, IndexError, struct.error) as error:
            field = field_at_fault(function.__code__, fields, error.__traceback__) or "tagged fields"
            short = f"the frame of {len(frame)} bytes ends within it"
            what = error if isinstance(error, ValueError) else short
            raise ProtocolError(f"{title}: {field}: {what}") from error
        if whole and end != len(frame):
            raise ProtocolError(f"{title}: {len(frame) - end} bytes come after the message")
        return message

    return decode


def _encoder(kind: type[Message], version: int) -> _Encoder:
    known = _encoders.get((kind, version))
    if known is not None:
        return known
    schema = schemas.find(kind.FAMILY, kind.__name__)
    if not schema.versions.has(version):
        raise UnencodableError(f"{schema.name} has no version {version}, only {schema.versions}")
    title = f"{schema.name} v{version}"
    function, fields = encoding.encoder_source(schema, version).function(f"encode {title}")
    write = cast(_Encoder, function)

    def encode(message: Message, put: Callable[[Records], object]) -> None:
        try:
            write(message, put)
        except (UnencodableError, struct.error, TypeError, AttributeError, ValueError) as error:
            field = field_at_fault(function.__code__, fields, error.__traceback__)
            raise UnencodableError(f"{title}: {field}: {error}") from error

    _encoders[kind, version] = encode
    return encode
