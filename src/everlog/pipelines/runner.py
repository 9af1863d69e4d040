"""The process that runs a project on Spark: `python -m everlog.pipelines.runner`, started by `launcher`.

Its first line of input is the job. The input then stays open: its end means stop, and comes as well when
whoever started this is gone. Events go to a pipe; what Spark and the project print goes to the log.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from everlog.model.errors import ConfigError, EverlogError
from everlog.pipelines.declared import Refresh
from everlog.pipelines.declared_process import DeclaredProcess, PassFailed
from everlog.pipelines.events import Event, PassEnded, PhaseBegan, RunEnded, event_line
from everlog.pipelines.project import Project, load_project
from everlog.pipelines.query_events import listen
from everlog.pipelines.stream_queries import StreamQueries, load_streams
from everlog.pipelines.streams import Stream
from everlog.spark.errors import explain
from everlog.spark.file_systems import require_file_system

_STOP_SECONDS = 30.0
_LOOK_SECONDS = 0.5
_MOST_FAILURES = 5


@dataclass(frozen=True, slots=True)
class Job:
    """What to run, and how."""

    spec_path: str
    master: str
    startup: dict[str, str]
    settings: dict[str, str]
    only: list[str]
    full: list[str]
    full_all: bool = False
    dry: bool = False
    continuous: bool = False
    interval_seconds: float = 10.0
    """From the start of a pass to the start of the next."""

    def line(self) -> str:
        """The job as the first line of the input."""
        return json.dumps(asdict(self))


class _Stopped(Exception):
    """Somebody wants the run to end."""


class JavaDied(EverlogError):
    """The Java that runs Spark has ended before the run; no answer of it will come."""


class Run:
    """One run in this process."""

    def __init__(self, job: Job, tell: Callable[[Event], None], stopping: threading.Event) -> None:
        self._job = job
        self._tell = tell
        self._stopping = stopping
        self._project: Project = load_project(Path(job.spec_path))
        self._spark: Any = None
        self._queries: StreamQueries | None = None
        self._declared = DeclaredProcess(tell) if self._project.declared_files() else None

    def go(self) -> None:
        """Run to the end, or until asked to stop; raises what went wrong."""
        from everlog.spark.session import session

        self._tell(PhaseBegan(f"starting Spark on {self._job.master}"))
        self._spark = session(self._project.name, master=self._job.master, settings=self._job.startup)
        self._spark.sparkContext.setLogLevel("WARN")
        require_file_system(self._spark, self._project.storage)
        for key, value in self._job.settings.items():
            self._spark.conf.set(key, value)
        listen(self._spark, self._tell)
        self._tell(PhaseBegan("reading the project"))
        streams = load_streams(self._project, self._spark)
        declared, chosen = choose(self._job, streams, declared=bool(self._project.declared_files()))
        self._queries = StreamQueries(self._spark, self._project, self._tell)
        if self._job.dry:
            self._queries.check(streams)
        if self._job.continuous:
            self._continue(declared, chosen)
            return
        if declared is not None:
            self._pass(1, declared)
        if chosen and not self._job.dry:
            self._tell(PhaseBegan("running streams"))
            self._queries.start(chosen, once=True, anew=self._anew(streams))
            while not self._queries.done():
                self._wait(_LOOK_SECONDS)

    def close(self) -> None:
        """Stop queries and Spark; gives up on a Spark that does not stop."""
        if self._declared is not None:
            self._declared.close()
        spark, queries = self._spark, self._queries
        if spark is None or self._java_end() is not None:
            return

        def stop() -> None:
            if queries is not None:
                queries.stop()
            spark.stop()

        closing = threading.Thread(target=stop, daemon=True)
        closing.start()
        closing.join(_STOP_SECONDS)

    def _continue(self, declared: Refresh | None, streams: list[Stream]) -> None:
        assert self._queries is not None
        failures = 0
        number = 0
        started = False
        while True:
            begun = time.monotonic()
            try:
                if declared is not None:
                    number += 1
                    self._pass(number, declared)
                    # Only the first pass resets; later ones go on from there.
                    declared = Refresh(only=[*declared.only, *declared.full])
                if streams and not started:
                    self._queries.start(streams, once=False, anew=self._anew(streams))
                    started = True
                    self._tell(PhaseBegan("streaming"))
                failures = 0
            except _Stopped:
                raise
            except Exception as error:
                self.check_java()
                # A broker that is away for a while must not end a pipeline that is to run for ever.
                failures += 1
                self._tell(PassEnded(number, explain(error) or str(error)))
                traceback.print_exc()
                if failures >= _MOST_FAILURES:
                    raise
            self._rest(begun + self._job.interval_seconds)

    def _rest(self, until: float) -> None:
        assert self._queries is not None
        while True:
            # Once at least: a pass may take longer than the interval, and streams must not be forgotten.
            self._queries.restart_failed(_MOST_FAILURES, time.monotonic())
            left = until - time.monotonic()
            self._wait(max(0.0, min(left, _LOOK_SECONDS)))
            if left <= 0:
                return

    def _pass(self, number: int, wanted: Refresh) -> None:
        assert self._declared is not None
        self._tell(PhaseBegan("checking the graph" if wanted.dry else "running declared flows"))
        under_way = self._declared.begin(
            number, self._spark, str(self._project.spec_path), self._job.settings, wanted
        )
        while not under_way.wait(_LOOK_SECONDS):
            self._wait(0)
            if self._job.continuous and self._queries is not None:
                self._queries.restart_failed(_MOST_FAILURES, time.monotonic())

    def _wait(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped
        # Who asks it something may wait for ever: Spark Connect tries again and again.
        self.check_java()

    def check_java(self) -> None:
        """JavaDied if there is no Java any more, whatever else went wrong for that."""
        code = self._java_end()
        if code is not None:
            cause = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
            raise JavaDied(f"the Java that runs Spark {cause} before the run was over")

    def _java_end(self) -> int | None:
        # None as well for a Java that somebody else has started.
        gateway = None if self._spark is None else self._spark.sparkContext._gateway
        process = getattr(gateway, "proc", None)
        return None if process is None else process.poll()

    def _anew(self, streams: list[Stream]) -> set[str]:
        return {stream.name for stream in streams if self._job.full_all or stream.name in self._job.full}


def choose(job: Job, streams: list[Stream], *, declared: bool) -> tuple[Refresh | None, list[Stream]]:
    """What declared flows are to do, None for nothing, and the streams to start.

    A name on the command line that is no stream's is taken for a declared table's, which the pass looks for.
    ConfigError if there can be none.
    """
    names = {stream.name for stream in streams}
    only = [name for name in job.only if name not in names]
    full = [name for name in job.full if name not in names]
    if (only or full) and not declared:
        expected = ", ".join(sorted(names))
        raise ConfigError(f"there is no stream {[*only, *full][0]!r} to refresh: expected some of {expected}")
    asked = {*job.only, *job.full}
    chosen = [stream for stream in streams if not asked or stream.name in asked]
    anything = declared and (not asked or bool(only or full))
    return Refresh(only, full, job.full_all, job.dry) if anything else None, chosen


def main() -> None:
    """Run the job of the first line of input; the exit code is 0 if it was done."""
    job = Job(**json.loads(sys.stdin.readline()))
    events = int(os.environ["EVERLOG_EVENTS_FD"])
    lock = threading.Lock()

    def tell(event: Event) -> None:
        # Nobody may be left to hear it: the end of the input says so, too, and Spark is stopped in order.
        with lock, contextlib.suppress(BrokenPipeError):
            line = f"{event_line(event)}\n".encode()
            while line:
                line = line[os.write(events, line) :]

    stopping = threading.Event()
    threading.Thread(target=_hear_the_end, args=(stopping,), daemon=True).start()
    ended = _run(job, tell, stopping)
    tell(ended)
    sys.stdout.flush()
    sys.stderr.flush()
    # The threads of pyspark's callback server would keep the process for ever; Spark has been stopped.
    os._exit(1 if ended.problem else 0)


def _hear_the_end(stopping: threading.Event) -> None:
    sys.stdin.read()
    stopping.set()


def _run(job: Job, tell: Callable[[Event], None], stopping: threading.Event) -> RunEnded:
    run: Run | None = None
    try:
        run = Run(job, tell, stopping)
        run.go()
        return RunEnded()
    except _Stopped:
        return RunEnded(stopped=True)
    except Exception as raised:  # noqa: BLE001  the edge of the process: whatever it is, its parent shows it
        traceback.print_exc()
        error = _cause(run, raised)
        problem = explain(error) or f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        detail = error.detail if isinstance(error, PassFailed) else None
        return RunEnded(problem, detail or "".join(traceback.format_exception(error)))
    finally:
        if run is not None:
            tell(PhaseBegan("stopping Spark"))
            run.close()


def _cause(run: Run | None, error: Exception) -> Exception:
    """What a run failed with, or that Java is gone, which is behind whatever it was."""
    try:
        if run is not None:
            run.check_java()
    except JavaDied as death:
        return death
    return error


if __name__ == "__main__":
    main()
