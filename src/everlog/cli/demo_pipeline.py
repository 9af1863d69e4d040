"""The pipeline of the demo: the template `shop`, run for ever on Spark on this machine."""

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from everlog.model.errors import EverlogError
from everlog.pipelines.launcher import RunProcess
from everlog.pipelines.project import Project
from everlog.pipelines.run_record import RunRecord, log_path, only_run, write_record
from everlog.pipelines.runner import Job
from everlog.pipelines.settings import run_settings
from everlog.pipelines.tally import RunTally

MASTER = "local[*]"


class DemoPipeline:
    """A run of a project; a context manager, on leaving which it has ended."""

    def __init__(self, project: Project, bootstrap: str) -> None:
        chosen = run_settings(project, MASTER, bootstrap, {"spark.sql.shuffle.partitions": "2"})
        self.project = project
        self.tally = RunTally()
        """What has become of it; changes while it runs."""
        self._bootstrap = bootstrap
        self._job = Job(
            spec_path=str(project.spec_path),
            master=MASTER,
            startup=dict(chosen.startup),
            settings=dict(chosen.project),
            only=[],
            full=[],
            continuous=True,
        )
        self._lock = only_run(project)
        self._hearing = threading.Thread(target=self._hear, name="demo-events", daemon=True)

    @property
    def log(self) -> Path:
        """What Spark says."""
        return log_path(self.project)

    def is_running(self, flows: int) -> bool:
        """Whether so many flows are at work; EverlogError if the run has ended."""
        self.check()
        states = [flow.state for flow in list(self.tally.flows.values())]
        return states.count("RUNNING") >= flows

    def check(self) -> None:
        """EverlogError if it has ended, with the reason."""
        if (ended := self.tally.ended) is not None:
            raise EverlogError(f"the pipeline ended: {ended.problem or 'nobody knows why'} (see {self.log})")

    def __enter__(self) -> Self:
        self._started_ms = time.time_ns() // 1_000_000
        lock = self._lock.__enter__()
        try:
            self.project.state.joinpath("catalog").mkdir(parents=True, exist_ok=True)
            self._note("running")
            self._process = RunProcess(self._job, self.log, lock)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        self._hearing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.stop()
            self._hearing.join(60.0)
            self._process.__exit__(kind, error, trace)
            self._note("stopped")
        finally:
            self._lock.__exit__(None, None, None)

    def _hear(self) -> None:
        for event in self._process.events():
            self.tally.take(event)

    def _note(self, state: str) -> None:
        ended_ms = None if state == "running" else time.time_ns() // 1_000_000
        problem = self.tally.ended.problem if self.tally.ended is not None else None
        record = RunRecord(
            "failed" if problem else state,
            MASTER,
            self._bootstrap,
            self._started_ms,
            ended_ms,
            self.tally.passes,
            problem,
            self.tally.shape(),
        )
        write_record(self.project, record)
