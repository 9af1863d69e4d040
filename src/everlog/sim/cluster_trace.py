"""What happened in a run, line by line: frames, strikes, what nodes log, what changes about partitions."""

import logging
from collections.abc import Callable

from everlog.sim.mesh import Mesh
from everlog.sim.timeline import Timeline
from everlog.wire.api_keys import ApiKey


class Trace(logging.Handler):
    """Writes lines with the time of the world in front."""

    def __init__(self, write: Callable[[str], None], *, frames: bool = True) -> None:
        super().__init__(logging.DEBUG)
        self._write = write
        self._frames = frames
        self._now: Callable[[], int] = lambda: 0

    def attach(self, time: Timeline, mesh: Mesh) -> None:
        """Listen to a world from now on."""
        self._now = time.now_ms
        if self._frames:
            mesh.trace = self._frame

    def say(self, what: str) -> None:
        """Write a line."""
        self._write(f"{self._now():>7} {what}")

    def emit(self, record: logging.LogRecord) -> None:
        """Write what a node logs."""
        self.say(f"log {record.name.removeprefix('everlog.')}: {record.getMessage()}")

    def _frame(self, route: str, frame: bytes, is_request: bool) -> None:
        if is_request:
            key, version = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
            number = int.from_bytes(frame[8:12], "big")
            self.say(f"{route}: {ApiKey(key).name} v{version} #{number}, {len(frame)} bytes")
        else:
            self.say(f"{route}: answer #{int.from_bytes(frame[4:8], 'big')}, {len(frame)} bytes")
