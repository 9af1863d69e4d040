"""A run on the terminal: a line that is drawn anew while it goes on, and a summary in the end."""

import shutil
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from everlog.cli.output import Block, Cell, Line, Report, Table
from everlog.cli.shapes import span_text

if TYPE_CHECKING:
    from everlog.pipelines.events import Event
    from everlog.pipelines.project import Project
    from everlog.pipelines.run_record import RunRecord
    from everlog.pipelines.runner import Job
    from everlog.pipelines.tally import FlowTally, RunTally

REDRAW_SECONDS = 0.2
PLAIN_SECONDS = 5.0


class RunView:
    """Shows a run's events on stderr: on a terminal one line drawn anew, elsewhere a line now and then."""

    def __init__(self, tally: "RunTally", *, quiet: bool, terminal: bool | None = None) -> None:
        self._tally = tally
        self._quiet = quiet
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self.began = time.monotonic()
        self._drawn_at = 0.0
        self._phase = ""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.stopping = False
        """Somebody has asked for the end."""

    def take(self, event: "Event") -> None:
        """Count an event in, and show what has changed."""
        with self._lock:
            self._tally.take(event)
            now = time.monotonic()
            changed = self._tally.phase != self._phase
            self._phase = self._tally.phase
            if self._quiet:
                return
            if self._terminal:
                self._draw(now)
            elif changed or (now - self._drawn_at >= PLAIN_SECONDS and self._tally.flows):
                self._write(self.line(now) + "\n", now)

    def note(self, text: str) -> None:
        """A line of its own."""
        if not self._quiet:
            sys.stderr.write(f"\n{text}\n" if self._terminal else f"{text}\n")
            sys.stderr.flush()

    def line(self, now: float) -> str:
        """The state of the run in a line: `12s  running  orders 52,000 rows 18,200/s lag 3,100`."""
        facts = [span_text(int((now - self.began) * 1000)), self._tally.phase]
        if self._tally.passes > 1:
            facts.append(f"pass {self._tally.passes}")
        facts += [_flow_text(flow) for flow in self._tally.flows.values() if flow.batches]
        waiting = [flow.flow for flow in self._tally.running() if not flow.batches]
        if waiting:
            facts.append(f"({', '.join(waiting)})")
        return "  ".join(fact for fact in facts if fact)

    def __enter__(self) -> Self:
        if self._terminal and not self._quiet:
            threading.Thread(target=self._keep_drawing, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the cursor on an empty line."""
        self._over.set()
        with self._lock:
            self._leave()

    def _leave(self) -> None:
        if self._terminal and not self._quiet and self._drawn_at:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

    def _keep_drawing(self) -> None:
        # Between events, too: somebody who waits for Spark to start wants to see that time goes by.
        while not self._over.wait(REDRAW_SECONDS):
            with self._lock:
                if not self._over.is_set():
                    self._draw(time.monotonic())

    def _draw(self, now: float) -> None:
        width = shutil.get_terminal_size().columns
        self._write(f"\r\x1b[2K{self.line(now)[: width - 1]}", now)

    def _write(self, text: str, now: float) -> None:
        self._drawn_at = now
        sys.stderr.write(text)
        sys.stderr.flush()


def _flow_text(flow: "FlowTally") -> str:
    lag = "" if flow.lag is None else f" lag {flow.lag:,}"
    return f"{flow.flow} {flow.rows_in:,} rows {flow.rows_per_second:,.0f}/s{lag}"


def run_report(
    project: "Project",
    job: "Job",
    record: "RunRecord",
    tally: "RunTally",
    log: Path | None,
    *,
    verbose: bool,
) -> Report:
    """The summary of a run that is over."""
    assert record.ended_ms is not None, record
    assert tally.ended is not None, tally
    took_ms = record.ended_ms - record.started_ms
    data: dict[str, object] = {
        "project": project.name,
        "state": record.state,
        "master": record.master,
        "bootstrap": record.bootstrap,
        "duration_ms": took_ms,
        "passes": record.passes,
        "failed_passes": tally.failed_passes,
        "rows_in": sum(flow.rows_in for flow in tally.flows.values()),
        "lag": tally.lag,
        "flows": record.flows,
        "problem": record.problem,
        "log": None if log is None else str(log),
    }
    blocks: list[Block] = []
    if tally.flows:
        blocks.append(_flow_table(list(tally.flows.values()), dry=job.dry))
    if record.problem is None:
        done = "is sound: nothing was run" if job.dry else record.state
        times = f", {record.passes} passes" if record.passes > 1 else ""
        rows = "" if job.dry else f", {data['rows_in']:,} rows read"
        lag = "" if tally.lag is None else f", lag {tally.lag:,}"
        blocks.append(Line(f"pipeline {project.name} {done} in {span_text(took_ms)}{times}{rows}{lag}"))
    errors: list[str] = []
    if record.problem is not None:
        if verbose and tally.ended.detail:
            errors.append(tally.ended.detail)
        errors.append(record.problem)
        if log is not None:
            errors[-1] += f" (Spark's log: {log}; --verbose shows it)"
    return Report(data, blocks, errors)


def _flow_table(flows: "list[FlowTally]", *, dry: bool) -> Table:
    if dry:
        return Table(("FLOW", "STATE"), [(flow.flow, flow.state.lower()) for flow in flows])
    rows: list[tuple[Cell, ...]] = [
        (
            flow.flow,
            flow.state.lower(),
            flow.batches,
            f"{flow.rows_in:,}" if flow.batches else None,
            None if flow.rows_out is None else f"{flow.rows_out:,}",
            f"{flow.rate:,.0f}" if flow.batches else None,
            None if flow.lag is None else f"{flow.lag:,}",
        )
        for flow in flows
    ]
    return Table(("FLOW", "STATE", "BATCHES", "ROWS IN", "ROWS OUT", "ROWS/S", "LAG"), rows)
