"""Flows on Structured Streaming: reading their files, starting their queries, watching them."""

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everlog.model.errors import ConfigError
from everlog.pipelines.checkpoints import STREAMS
from everlog.pipelines.events import Event, FlowChanged
from everlog.pipelines.project import Project
from everlog.pipelines.streams import Stream, take_declared

# Spark gives a Python that it starts ten seconds to report, whatever else the machine does. It tries declared
# flows again by itself, but not queries.
_SLOW_MACHINE = "Python worker failed to connect back"
_MOST_TRIES = 3
_LONGEST_REST_S = 30.0


def load_streams(project: Project, spark: Any) -> list[Stream]:
    """Run the project's `streams/*.py`, each with the global `spark`; return what they declare."""
    found: list[Stream] = []
    for path in project.stream_files():
        spec = importlib.util.spec_from_file_location(f"everlog_streams_{path.stem}", path)
        assert spec is not None, path
        assert spec.loader is not None, path
        module = importlib.util.module_from_spec(spec)
        module.__dict__["spark"] = spark
        spec.loader.exec_module(module)
        declared = take_declared()
        if not declared:
            raise ConfigError(f"{path} declares no stream: expected a function with @stream")
        for stream in declared:
            if any(stream.name == other.name for other in found):
                raise ConfigError(f"stream {stream.name!r} is declared twice, the second time in {path}")
            found.append(stream)
    return found


@dataclass(slots=True)
class _Running:
    stream: Stream
    query: Any
    failures: int = 0
    """In a row."""
    restart_at: float | None = None
    """When a query that has failed is started again."""
    given_up: Exception | None = None
    """What it failed with for good. Who was told may have taken it for a failure of a pass."""
    over: bool = False
    """Ended, and told so."""


class StreamQueries:
    """The queries of one run; pyspark's objects are `Any`."""

    def __init__(self, spark: Any, project: Project, tell: Callable[[Event], None]) -> None:
        self._spark = spark
        self._project = project
        self._tell = tell
        self._running: dict[str, _Running] = {}
        self._once = True

    def check(self, streams: Iterable[Stream]) -> None:
        """Call the functions and look at what they return; nothing is started."""
        for stream in streams:
            self._writer(stream)
            self._tell(FlowChanged(stream.name, "CHECKED"))

    def start(self, streams: Iterable[Stream], *, once: bool, anew: set[str]) -> None:
        """Start queries: to the end of what is there, or for ever. Those in `anew` forget where they were.

        What an earlier call has started, before it failed with another, goes on as it is.
        """
        self._once = once
        for stream in streams:
            if stream.name in self._running:
                continue
            self._tell(FlowChanged(stream.name, "STARTING"))
            try:
                query = self._start(stream, anew=stream.name in anew)
            except Exception:
                self._tell(FlowChanged(stream.name, "FAILED"))
                raise
            self._running[stream.name] = _Running(stream, query)
            self._tell(FlowChanged(stream.name, "RUNNING"))

    def done(self) -> bool:
        """Whether all queries of a single run have ended; raises what one of them failed with."""
        over = True
        for name, running in self._running.items():
            if running.query.isActive:
                over = False
                continue
            if running.over:
                continue
            error = running.query.exception()
            if error is not None and _SLOW_MACHINE in str(error) and running.failures < _MOST_TRIES:
                running.failures += 1
                running.query = self._start(running.stream, anew=False)
                over = False
                continue
            running.over = True
            if error is not None:
                self._tell(FlowChanged(name, "FAILED"))
                raise error
            self._tell(FlowChanged(name, "COMPLETED"))
        return over

    def restart_failed(self, most: int, now: float) -> None:
        """Start queries that have ended again, later with each failure; raise what fails for good.

        For good is `most` times in a row; a batch that was done in between shows that it was not.
        """
        for name, running in self._running.items():
            if running.query.isActive:
                continue
            if running.given_up is not None:
                raise running.given_up
            if running.restart_at is None:
                if running.query.lastProgress is not None:
                    running.failures = 0
                self._put_off(running, running.query.exception(), most, now)
            elif now >= running.restart_at:
                try:
                    running.query = self._start(running.stream, anew=False)
                except Exception as error:  # noqa: BLE001  a user's function: it may ask what is away, too
                    self._put_off(running, error, most, now)
                else:
                    running.restart_at = None
                    self._tell(FlowChanged(name, "RUNNING"))

    def _put_off(self, running: _Running, error: Exception | None, most: int, now: float) -> None:
        """Note a failure, and when to try again; raise it if it is one too many."""
        self._tell(FlowChanged(running.stream.name, "FAILED"))
        running.failures += 1
        # A machine that is too slow now will be quicker later; it gets more time than other faults.
        limit = most * _MOST_TRIES if _SLOW_MACHINE in str(error) else most
        if error is not None and running.failures >= limit:
            running.given_up = error
            raise error
        running.restart_at = now + min(_LONGEST_REST_S, 2.0 ** (running.failures - 1))

    def stop(self) -> None:
        """Stop all queries; what they had begun is done again at the next start."""
        for name, running in self._running.items():
            if running.query.isActive:
                running.query.stop()
                self._tell(FlowChanged(name, "STOPPED"))

    def _start(self, stream: Stream, *, anew: bool) -> Any:
        writer = self._writer(stream).queryName(stream.name)
        writer = writer.option("checkpointLocation", self._checkpoint(stream.name, anew=anew))
        if self._once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=stream.trigger).start()

    def _writer(self, stream: Stream) -> Any:
        writer = stream.declare()
        if not hasattr(writer, "queryName") or not hasattr(writer, "trigger"):
            raise ConfigError(
                f"stream {stream.name!r} returned {type(writer).__name__}: expected a writer that is not "
                "started, such as df.writeStream.format(…)"
            )
        return writer

    def _checkpoint(self, name: str, *, anew: bool) -> str:
        # A new number, as Spark does for declared flows: the old place stays until somebody removes it.
        home = f"{self._project.storage}/{STREAMS}/{name}"
        local = self._project.local_storage
        if local is not None:
            return f"{home}/{_number(local / STREAMS / name, anew=anew)}"
        return f"{home}/{_number(self._project.state / STREAMS / name, anew=anew, remember=True)}"


def _number(home: Path, *, anew: bool, remember: bool = False) -> int:
    """The number of a stream's checkpoint: the highest there is, and one more to begin anew."""
    numbers = [int(path.name) for path in home.iterdir() if path.name.isdigit()] if home.is_dir() else []
    highest = max(numbers, default=None)
    number = 0 if highest is None else highest + anew
    if remember:
        # The checkpoint itself is on a storage that we do not look into.
        (home / str(number)).mkdir(parents=True, exist_ok=True)
    return number
