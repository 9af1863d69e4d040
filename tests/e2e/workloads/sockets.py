"""Plays a script over real sockets, in a thread of its own."""

import socket
import time
from typing import Any, assert_never

from everlog.sim.script import Burst, Call, Lost, Script, Sleep
from everlog.wire.codec import decode_response, encode_request
from everlog.wire.message import Message
from tests.e2e.workloads.worker import Worker


class SocketPlayer:
    """One client of a real broker. Where no answer comes in time, its connection is closed."""

    def __init__(self, name: str, script: Script[None], address: tuple[str, int]) -> None:
        self.name = name
        self._script = script
        self._address = address
        self._channels: dict[str, socket.socket] = {}
        self._correlation_id = 0
        self._worker = Worker(name, self._run)

    def start(self) -> None:
        self._worker.start()

    def join(self, timeout_s: float) -> None:
        """Wait for its end, and raise what it raised."""
        self._worker.join(timeout_s)

    def _run(self) -> None:
        try:
            self._play()
        finally:
            for channel in list(self._channels):
                self._close(channel)

    def _play(self) -> None:
        result: Any = None
        lost = False
        while True:
            try:
                step = self._script.throw(Lost()) if lost else self._script.send(result)
            except StopIteration:
                return
            result, lost = None, False
            match step:
                case Sleep():
                    time.sleep(step.ms / 1000)
                case Call():
                    (result,) = self._exchange((step,))
                    lost = result is None
                case Burst():
                    result = self._exchange(step.calls)
                case _:
                    assert_never(step)

    def _exchange(self, calls: tuple[Call, ...]) -> list[Message | None]:
        answers: list[Message | None] = [None] * len(calls)
        channel = calls[0].channel
        deadline = time.monotonic() + calls[0].timeout_ms / 1000
        try:
            connection = self._connection(channel)
            first = self._correlation_id + 1
            for call in calls:
                self._correlation_id += 1
                connection.sendall(
                    encode_request(call.request, call.version, self._correlation_id, self.name)
                )
            for at, call in enumerate(calls):
                frame = self._frame(connection, deadline)
                assert call.request.KEY is not None
                correlation_id, answers[at] = decode_response(call.request.KEY, call.version, frame)
                assert correlation_id == first + at, "an answer out of order"
        except OSError:
            self._close(channel)
            # So that a broker that is down is not asked without a pause.
            time.sleep(0.02)
        return answers

    def _connection(self, channel: str) -> socket.socket:
        found = self._channels.get(channel)
        if found is None:
            found = self._channels[channel] = socket.create_connection(self._address, timeout=2)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def _frame(self, connection: socket.socket, deadline: float) -> bytes:
        size = int.from_bytes(self._exactly(connection, 4, deadline), "big")
        return self._exactly(connection, size, deadline)

    def _exactly(self, connection: socket.socket, size: int, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            part = connection.recv(size - len(parts))
            if not part:
                raise ConnectionError(f"closed after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)

    def _close(self, channel: str) -> None:
        connection = self._channels.pop(channel, None)
        if connection is not None:
            connection.close()
