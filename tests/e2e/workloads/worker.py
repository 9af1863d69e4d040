"""A thread that runs beside others until it is told to stop, and whose end is waited for."""

import sys
import threading
import traceback
from collections.abc import Callable


class Worker:
    """Runs something in a thread and keeps what it raised."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self.name = name
        self._action = action
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ended(self, timeout_s: float) -> bool:
        """Wait, and say whether it has come to its end."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        """Wait for its end, and raise what it raised."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            frame = sys._current_frames().get(self._thread.ident or 0)  # pyright: ignore[reportPrivateUsage]
            at = "" if frame is None else "".join(traceback.format_stack(frame)[-4:])
            raise AssertionError(f"{self.name} did not come to an end within {timeout_s} s:\n{at}")
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._action()
        except BaseException as error:  # noqa: BLE001  # told by join
            self._error = error
