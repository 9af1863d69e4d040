"""`everlog pipeline run` and `dry-run`."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everlog.cli.command import bare_command, json_option
from everlog.cli.connect import open_admin
from everlog.cli.options import key_values
from everlog.cli.output import show
from everlog.cli.pipeline_options import cluster_option, open_project, project_argument, servers
from everlog.cli.pipeline_view import RunView, run_report
from everlog.model.errors import ConfigError

if TYPE_CHECKING:
    from everlog.pipelines.project import Project
    from everlog.pipelines.runner import Job

RUN_EXAMPLES = """
$ everlog pipeline run sales                                   # once, on all cores of this machine
$ everlog pipeline run sales --continuous --interval 5
$ everlog pipeline run sales --master spark://10.0.0.5:7077 -c spark.executor.memory=4g
$ everlog pipeline run sales --full-refresh revenue
"""

DRY_RUN_EXAMPLES = """
$ everlog pipeline dry-run sales
"""


def _names(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> list[str]:
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


@bare_command("run", examples=RUN_EXAMPLES)
@project_argument
@click.option(
    "--master", default="local[*]", show_default=True, metavar="URL", help="Where Spark runs its tasks."
)
@click.option(
    "--once/--continuous", default=True, help="To the end of what is there, or for ever.  [default: once]"
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="With --continuous: from the start of a pass of declared flows to the next.",
)
@click.option(
    "--refresh", multiple=True, callback=_names, metavar="NAME[,…]", help="Run only these; repeatable."
)
@click.option(
    "--full-refresh",
    multiple=True,
    callback=_names,
    metavar="NAME[,…]",
    help="Compute these anew; repeatable.",
)
@click.option(
    "--full-refresh-all", is_flag=True, help="Compute everything anew, from the topics' beginnings."
)
@click.option(
    "-c", "--conf", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of Spark or the project."
)
@click.option("-v", "--verbose", is_flag=True, help="Show what Spark says, and whole stacks.")
@json_option
@cluster_option
def run(
    *,
    project_path: Path,
    master: str,
    once: bool,
    interval: float,
    refresh: list[str],
    full_refresh: list[str],
    full_refresh_all: bool,
    settings: tuple[str, ...],
    verbose: bool,
    as_json: bool,
    bootstrap: str | None,
    timeout: float,
) -> int:
    """Run a project on Spark: its declared flows, then its streams.

    With --once each flow reads to the end of what is there and stops. With --continuous declared flows are
    run again and again, streams run for ever, and Ctrl-C ends it cleanly. A flow goes on where it was, also
    after a crash. While it runs rows, rates and lag are on the terminal; then comes a summary.
    """
    if full_refresh_all and (refresh or full_refresh):
        raise click.UsageError("--full-refresh-all means everything: leave out --refresh and --full-refresh")
    conf = key_values(settings, "--conf")
    project = open_project(project_path)
    cluster = servers(project, bootstrap)
    _check_topics(project, cluster, timeout)
    job = _job(project, master, cluster, conf, refresh=refresh, full=full_refresh, full_all=full_refresh_all)
    if not once:
        job = _for_ever(job, interval)
    return _watch(project, job, cluster, verbose=verbose, as_json=as_json)


@bare_command("dry-run", examples=DRY_RUN_EXAMPLES)
@project_argument
@click.option("-c", "--conf", "settings", multiple=True, metavar="KEY=VALUE", help="As for run.")
@click.option("-v", "--verbose", is_flag=True, help="Show what Spark says, and whole stacks.")
@json_option
@cluster_option
def dry_run(
    *,
    project_path: Path,
    settings: tuple[str, ...],
    verbose: bool,
    as_json: bool,
    bootstrap: str | None,
    timeout: float,
) -> int:
    """Check a project: files, names, columns and the graph of its flows. Nothing is read or written."""
    project = open_project(project_path)
    cluster = servers(project, bootstrap)
    job = _job(project, "local[1]", cluster, key_values(settings, "--conf"), dry=True)
    return _watch(project, job, cluster, verbose=verbose, as_json=as_json)


def _job(
    project: "Project",
    master: str,
    cluster: str,
    conf: dict[str, str],
    *,
    refresh: Sequence[str] = (),
    full: Sequence[str] = (),
    full_all: bool = False,
    dry: bool = False,
) -> "Job":
    from everlog.pipelines.runner import Job
    from everlog.pipelines.settings import run_settings

    chosen = run_settings(project, master, cluster, conf)
    return Job(
        spec_path=str(project.spec_path),
        master=master,
        startup=dict(chosen.startup),
        settings=dict(chosen.project),
        only=list(refresh),
        full=list(full),
        full_all=full_all,
        dry=dry,
    )


def _for_ever(job: "Job", interval: float) -> "Job":
    from dataclasses import replace

    return replace(job, continuous=True, interval_seconds=interval)


def _check_topics(project: "Project", cluster: str, timeout: float) -> None:
    """Say in a second what Spark would say in a minute: no cluster there, or a topic is missing."""
    from everlog.pipelines.project import BOOTSTRAP_KEY

    if not project.topics and BOOTSTRAP_KEY not in project.configuration:
        return
    with open_admin(cluster, timeout) as admin:
        there = set(admin.list_topics(internal=True))
    missing = [topic.name for topic in project.topics if topic.name not in there]
    if missing:
        names = ", ".join(missing)
        raise ConfigError(
            f"{'topic' if len(missing) == 1 else 'topics'} {names} of {project.name}'s everlog.toml: not at "
            f"{cluster}; `everlog pipeline seed {project.root}` creates what is missing"
        )


def _watch(project: "Project", job: "Job", cluster: str, *, verbose: bool, as_json: bool) -> int:
    from everlog.pipelines.launcher import RunProcess, terminated_as_interrupted
    from everlog.pipelines.run_record import RunRecord, log_path, only_run, write_record
    from everlog.pipelines.tally import RunTally
    from everlog.spark.session import prepare

    prepare()
    tally = RunTally()
    with only_run(project) as lock, RunView(tally, quiet=as_json) as view:
        started_ms = time.time_ns() // 1_000_000
        project.state.joinpath("catalog").mkdir(parents=True, exist_ok=True)
        if not job.dry:
            write_record(project, RunRecord("running", job.master, cluster, started_ms))
        log = None if verbose else log_path(project)
        with terminated_as_interrupted(), RunProcess(job, log, lock) as process:
            events = process.events()
            while tally.ended is None:
                try:
                    for event in events:
                        view.take(event)
                except KeyboardInterrupt:
                    view.note("stopping; once more ends it at once" if not view.stopping else "ending")
                    if view.stopping:
                        raise
                    view.stopping = True
                    process.stop()
                    events = process.events()
        ended = tally.ended
        state = "failed" if ended.problem else "stopped" if ended.stopped else "completed"
        record = RunRecord(
            state,
            job.master,
            cluster,
            started_ms,
            time.time_ns() // 1_000_000,
            tally.passes,
            ended.problem,
            tally.shape(),
        )
        if not job.dry:
            write_record(project, record)
    report = run_report(project, job, record, tally, log, verbose=verbose)
    code = show(report, "pipeline dry-run" if job.dry else "pipeline run", as_json=as_json)
    # Ctrl-C is how a run for ever ends; a single run that was stopped is not done.
    return 1 if ended.stopped and not job.continuous else code
