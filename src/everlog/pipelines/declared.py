"""Declared flows: one pass of Spark Declarative Pipelines over a project.

Thin, over parts of `pyspark.pipelines` that its own command line uses and does not promise: they are named in
this module alone.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from everlog.model.errors import ConfigError
from everlog.pipelines.checkpoints import short_flow
from everlog.pipelines.events import Event, FlowChanged
from everlog.pipelines.project import Project
from everlog.spark.errors import explain_text

_STATE = re.compile(r"^Flow '?([^\s']+)'? (?:is|has|was) (?:been )?([A-Z]+)\b")


@dataclass(frozen=True, slots=True)
class Refresh:
    """What a pass is to do: with nothing named it updates everything."""

    only: Sequence[str] = ()
    full: Sequence[str] = ()
    """Reset and computed anew."""
    full_all: bool = False
    """The same for all."""
    dry: bool = False
    """Check the graph, run nothing."""


def connect(spark: Any, settings: dict[str, str]) -> Any:
    """A Connect session on the server inside this driver."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()
    builder: Any = ConnectSession.builder
    session: Any = builder.remote(f"sc://127.0.0.1:{port}").create()
    for key, value in settings.items():
        session.conf.set(key, value)
    return session


def run_pass(
    connected: Any, project: Project, settings: dict[str, str], wanted: Refresh, tell: Callable[[Event], None]
) -> list[str]:
    """Run all declared flows to the end of what is there; return the flows' names as Spark has them.

    Raises what Spark raises when the graph is wrong or a flow failed.
    """
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
        full_refresh=list(wanted.full),
        full_refresh_all=wanted.full_all,
        refresh=list(wanted.only),
        dry=wanted.dry,
        storage=project.storage,
    )
    flows: list[str] = []
    failures: list[str] = []
    for result in results:
        if "pipeline_event_result" not in result:
            continue
        message = str(result["pipeline_event_result"].event.message)
        print(message, flush=True)  # noqa: T201  for the log, beside Spark's own lines
        if found := _STATE.match(message):
            flow = short_flow(found[1])
            if flow not in flows:
                flows.append(flow)
            if found[2] == "FAILED":
                failures.append(f"flow {flow}: {explain_text(message) or message}")
            tell(FlowChanged(flow, found[2]))
    if failures:
        raise ConfigError("; ".join(dict.fromkeys(failures)))
    return flows
