"""The process of the declared flows, as the run sees it."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from everlog.model.errors import EverlogError
from everlog.pipelines.declared import PassWanted, Refresh
from everlog.pipelines.events import Event, PassEnded, read_event


class PassFailed(EverlogError):
    """A pass did not get through; the message is one line, `detail` the stack behind it."""

    def __init__(self, message: str, detail: str | None = None) -> None:
        super().__init__(message)
        self.detail = detail


class DeclaredProcess:
    """Runs passes one after the other; it is started early, and loads while Spark starts."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._process = subprocess.Popen(
            [sys.executable, "-m", "everlog.pipelines.declared"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(
        self, number: int, spark: Any, spec_path: str, settings: dict[str, str], wanted: Refresh
    ) -> "RunningPass":
        """Begin a pass on the Connect server of this session's driver."""
        service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
        port = int(getattr(service, "MODULE$").localPort())
        line = json.dumps(asdict(PassWanted(number, port, spec_path, settings, asdict(wanted))))
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PassFailed("the process of the declared flows is gone") from None
        return RunningPass(self._process, self._tell)

    def close(self) -> None:
        """End the process; a pass that is under way ends with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


class RunningPass:
    """A pass under way; a thread passes its events on."""

    def __init__(self, process: "subprocess.Popen[str]", tell: Callable[[Event], None]) -> None:
        self._process = process
        self._tell = tell
        self._ended: PassEnded | None = None
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether it is over, after so long at most; PassFailed if it failed."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if self._ended is None:
            raise PassFailed(f"the process of the declared flows ended with code {self._process.wait()}")
        if self._ended.problem is not None:
            raise PassFailed(self._ended.problem, self._ended.detail)
        return True

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = read_event(line)
            if isinstance(event, PassEnded):
                self._ended = event
                if event.problem is None:
                    self._tell(event)
                return
            self._tell(event)
