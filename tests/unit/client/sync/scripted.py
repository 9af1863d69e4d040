"""A broker that does what a test tells it, on a real loopback socket."""

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from everlog.wire.apis import APIS, ApiKey
from everlog.wire.codec import (
    RequestHeader,
    decode_request,
    encode_response,
    is_too_new_api_versions,
    read_request_header,
    too_new_api_versions,
)
from everlog.wire.message import Message
from everlog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey

Script = Callable[[RequestHeader, Message], Message | bytes | None]
"""Answers a request with a message, with raw bytes, or by closing the connection."""


class ScriptedBroker:
    """Listens on a free port; ApiVersions is answered as brokers do, all else by the script."""

    def __init__(
        self,
        script: Script,
        *,
        max_api_versions: int = 4,
        greets: bool = True,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self._script = script
        self._features = features or {}
        self._max_api_versions = max_api_versions
        self._greets = greets
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.seen: list[RequestHeader] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # A client that gives up resets the connection; that is its business.
        with suppress(ConnectionError), connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(int.from_bytes(size, "big"))
                answer = self._answer(frame)
                if answer is None:
                    return
                connection.sendall(answer)

    def _answer(self, frame: bytes) -> bytes | None:
        header = read_request_header(frame)
        self.seen.append(header)
        if header.api_key == ApiKey.API_VERSIONS and self._greets:
            return self._versions(header)
        request = decode_request(header, frame)
        answer = self._script(header, request)
        if answer is None or isinstance(answer, bytes):
            return answer
        return encode_response(answer, header.api_version, header.correlation_id)

    def _versions(self, header: RequestHeader) -> bytes:
        if header.api_version > self._max_api_versions or is_too_new_api_versions(header):
            refused = bytearray(too_new_api_versions(header.correlation_id))
            refused[-2:] = self._max_api_versions.to_bytes(2, "big")
            return bytes(refused)
        keys: Sequence[ApiVersion] = [
            ApiVersion(api_key=key, min_version=api.min_version, max_version=api.max_version)
            for key, api in APIS.items()
        ]
        features = [
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in self._features.items()
        ]
        answer = ApiVersionsResponse(
            api_keys=list(keys), finalized_features=features, finalized_features_epoch=0 if features else -1
        )
        return encode_response(answer, header.api_version, header.correlation_id)
