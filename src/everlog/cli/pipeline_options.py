"""Options that the pipeline commands share, and how they find the project and its cluster."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from everlog.cli.client_config import client_config_option

if TYPE_CHECKING:
    from everlog.pipelines.project import Project

Function = TypeVar("Function", bound=Callable[..., Any])


def project_argument(function: Function) -> Function:
    """Add the argument PROJECT, the current directory if it is not given."""
    return click.argument("project_path", metavar="[PROJECT]", type=click.Path(path_type=Path), default=".")(
        function
    )


def cluster_option(function: Function) -> Function:
    """Add `-b/--bootstrap`, whose default is what the project names, `--timeout` and `--client-config`."""
    function = client_config_option(function)
    function = click.option(
        "--timeout",
        type=click.FloatRange(min=0.0, min_open=True),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Give up on an answer of the cluster after so long.",
    )(function)
    return click.option(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        "bootstrap",
        envvar="EVERLOG_BOOTSTRAP",
        show_envvar=True,
        metavar="HOST:PORT[,…]",
        help="Where to find the cluster.  [default: everlog.bootstrap.servers of the project]",
    )(function)


def open_project(path: Path) -> "Project":
    """Load the project; needs the extra `spark`, which has what reads its yml."""
    from everlog.pipelines.project import find_project
    from everlog.spark.session import require_pyspark

    require_pyspark()
    return find_project(path)


def servers(project: "Project", given: str | None) -> str:
    """The cluster's address: the command line's or the environment's, else the project's; checked."""
    from everlog.client.core.addresses import parse_bootstrap
    from everlog.model.errors import ConfigError

    chosen = given or project.bootstrap
    try:
        parse_bootstrap(chosen)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return chosen
