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
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everlog.model.errors import ConfigError
from everlog.pipelines.checkpoints import short_flow
from everlog.pipelines.events import Event, FlowChanged, PassEnded, event_line
from everlog.pipelines.project import Project, load_project
from everlog.spark.errors import explain, explain_text

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
    """Run passes as they are asked for, until the input ends; each ends with the event PassEnded."""
    # Spark's command line prints; what is for our parent goes elsewhere than what is for the log.
    with os.fdopen(os.dup(1), "w", buffering=1) as events:
        os.dup2(2, 1)

        def tell(event: Event) -> None:
            events.write(event_line(event) + "\n")

        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        importlib.import_module("pyspark.pipelines.cli")  # It takes seconds, and Spark is starting meanwhile.

        connected: Any = None
        for line in sys.stdin:
            wanted = PassWanted(**json.loads(line))
            try:
                connected = connected or _connect(wanted)
                project = load_project(Path(wanted.spec_path))
                _run_pass(connected, project, wanted.settings, Refresh(**wanted.refresh), tell)
                tell(PassEnded(wanted.number))
            except Exception as error:  # noqa: BLE001  the edge of the process: its parent decides
                traceback.print_exc()
                detail = "".join(traceback.format_exception(error))
                tell(PassEnded(wanted.number, explain(error) or str(error).strip().splitlines()[0], detail))
    sys.stderr.flush()
    os._exit(0)  # The server is gone or going: there is nobody to take leave of.


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
    cli.register_definitions(
        project.spec_path, SparkConnectGraphElementRegistry(connected, graph), spec, connected, graph
    )
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
    for result in results:
        if "pipeline_event_result" not in result:
            continue
        message = str(result["pipeline_event_result"].event.message)
        print(message, flush=True)  # noqa: T201  for the log, beside Spark's own lines
        change = flow_change(message)
        if change is None:
            continue
        tell(change)
        if change.state == "FAILED":
            failures[change.flow] = explain_text(message) or message
        else:
            # Spark tries a failed flow again: what counts is how it ends.
            failures.pop(change.flow, None)
    if failures:
        raise ConfigError("; ".join(f"flow {flow}: {reason}" for flow, reason in failures.items()))


if __name__ == "__main__":
    main()
