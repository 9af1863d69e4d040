"""Declared flows: passes of Spark Declarative Pipelines over a project, in a process of their own.

Declared flows need Spark Connect, and pyspark is either a Connect client or an ordinary one, for a whole
process. So `runner` has the ordinary session, and starts this as a client of the server inside it:
`python -m everlog.pipelines.declared`, a line of JSON for each pass. It is thin, over parts of
`pyspark.pipelines` that Spark's own command line uses and does not promise: they are named in this module
alone.
"""

import importlib
import json
import os
import queue
import re
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everlog.model.errors import ConfigError
from everlog.pipelines.checkpoints import short_flow
from everlog.pipelines.declared_names import DeclaredNames, check_refresh
from everlog.pipelines.events import Event, FlowChanged, PassEnded, event_line
from everlog.pipelines.project import Project, load_project
from everlog.spark.errors import explain, explain_text

_UNRESOLVED = re.compile(r"^Failed to resolve flow: '?([^\s']+?)'?\.?\s")
_STATE = re.compile(r"^Flow '?([^\s']+)'? (?:is|has|was) (?:been )?([A-Z]+)\b")


@dataclass(frozen=True, slots=True)
class Refresh:
    """What a pass is to do: with nothing named it updates everything."""

    only: list[str] = field(default_factory=list[str])
    full: list[str] = field(default_factory=list[str])
    """Reset and computed anew."""
    full_all: bool = False
    """The same for all."""
    dry: bool = False
    """Check the graph, run nothing."""


@dataclass(frozen=True, slots=True)
class PassWanted:
    """One line of input: a pass over a project, on the server at this port of this machine."""

    number: int
    port: int
    spec_path: str
    settings: dict[str, str]
    refresh: dict[str, Any]


def flow_change(message: str) -> FlowChanged | None:
    """What a pipeline's event says of a flow: `Flow spark_catalog.default.orders is RUNNING.`"""
    found = _STATE.match(message)
    return None if found is None else FlowChanged(short_flow(found[1]), found[2])


def main() -> None:
    """Run passes as they are asked for, each to the event PassEnded; the end of the input ends it all."""
    # Spark's command line prints; what is for our parent goes elsewhere than what is for the log.
    events = os.dup(1)
    os.dup2(2, 1)

    def tell(event: Event) -> None:
        line = f"{event_line(event)}\n".encode()
        while line:
            line = line[os.write(events, line) :]

    wanted: queue.SimpleQueue[PassWanted] = queue.SimpleQueue()
    threading.Thread(target=_hear, args=(wanted,), daemon=True).start()
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    importlib.import_module("pyspark.pipelines.cli")  # It takes seconds, and Spark is starting meanwhile.
    connected: Any = None
    while True:
        asked = wanted.get()
        try:
            connected = connected or _connect(asked)
            project = load_project(Path(asked.spec_path))
            _run_pass(connected, project, asked.settings, Refresh(**asked.refresh), tell)
            ended = PassEnded(asked.number)
        except Exception as error:  # noqa: BLE001  the edge of the process: its parent decides
            traceback.print_exc()
            problem = explain(error) or f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            ended = PassEnded(asked.number, problem, "".join(traceback.format_exception(error)))
        tell(ended)


def _hear(wanted: "queue.SimpleQueue[PassWanted]") -> None:
    for line in sys.stdin:
        wanted.put(PassWanted(**json.loads(line)))
    # Whoever asked is gone, and the server with it. A pass may be waiting for an answer that never comes, and
    # threads of gRPC would keep the process: it ends here and now.
    os._exit(0)


def _connect(wanted: PassWanted) -> Any:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    session: Any = builder.remote(f"sc://127.0.0.1:{wanted.port}").getOrCreate()
    for key, value in wanted.settings.items():
        session.conf.set(key, value)
    return session


def _run_pass(
    connected: Any, project: Project, settings: dict[str, str], wanted: Refresh, tell: Callable[[Event], None]
) -> None:
    """Run all declared flows to the end of what is there; raises what is wrong with the graph or a flow."""
    from pyspark.pipelines import cli
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    spec = cli.load_pipeline_spec(project.spec_path)
    graph = create_dataflow_graph(
        connected, default_catalog=project.catalog, default_database=project.database, sql_conf=settings
    )
    declared: Any = DeclaredNames(SparkConnectGraphElementRegistry(connected, graph))
    cli.register_definitions(project.spec_path, declared, spec, connected, graph)
    check_refresh([*wanted.only, *wanted.full], declared)
    results = start_run(
        connected,
        graph,
        full_refresh=wanted.full,
        full_refresh_all=wanted.full_all,
        refresh=wanted.only,
        dry=wanted.dry,
        storage=project.storage,
    )
    failures: dict[str, str] = {}
    try:
        _follow(results, failures, tell)
    except Exception:
        # Spark's own sentence at the end says only that there is something wrong.
        if not failures:
            raise
    if failures:
        raise ConfigError("; ".join(f"flow {flow}: {reason}" for flow, reason in failures.items()))
    if wanted.dry:
        # Spark says nothing of flows that it does not run.
        for name in declared.flows:
            tell(FlowChanged(short_flow(name), "CHECKED"))


def _follow(results: Any, failures: dict[str, str], tell: Callable[[Event], None]) -> None:
    """Tell what becomes of flows until the pass is over, and note why they fail."""
    for result in results:
        if "pipeline_event_result" not in result:
            continue
        message = str(result["pipeline_event_result"].event.message)
        print(message, flush=True)  # noqa: T201  for the log, beside Spark's own lines
        if (unresolved := _UNRESOLVED.match(message)) is not None:
            failures[short_flow(unresolved[1])] = explain_text(message) or message
            continue
        change = flow_change(message)
        if change is None:
            continue
        tell(change)
        if change.state == "FAILED":
            failures[change.flow] = explain_text(message) or message
        else:
            # Spark tries a failed flow again: what counts is how it ends.
            failures.pop(change.flow, None)


if __name__ == "__main__":
    main()
