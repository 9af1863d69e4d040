"""`everlog topic create|alter|delete|add-partitions`."""

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.config_change import alter_resource
from everlog.cli.options import bootstrap_option, confirm, dry_run_option, key_values, yes_option
from everlog.cli.output import Line, Report
from everlog.cli.shapes import error_shape
from everlog.client.core.config_admin import Resource, ResourceType
from everlog.client.core.topic_admin import BROKER_DEFAULT, NewTopic, TopicCreated
from everlog.client.sync.admin import Admin
from everlog.client.sync.cluster import Cluster
from everlog.model.errors import ErrorCode
from everlog.model.ids import uuid_text

CREATE_EXAMPLES = """
$ everlog topic create orders --partitions 6
$ everlog topic create customers --config cleanup.policy=compact --if-not-exists
$ everlog topic create audit --replication-factor 3 --dry-run
"""


@command("create", examples=CREATE_EXAMPLES)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many.  [default: the broker's num.partitions]",
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(min=1),
    metavar="N",
    help="Copies of each.  [default: the broker's default.replication.factor]",
)
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Topics that exist are no error.")
@dry_run_option
@bootstrap_option
def create(
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Create topics."""
    settings = key_values(configs, "--config")
    wanted = [
        NewTopic(name, partitions or BROKER_DEFAULT, replication_factor or BROKER_DEFAULT, settings)
        for name in names
    ]
    with Cluster(bootstrap, timeout=timeout) as cluster:
        results = Admin(cluster).create_topics(wanted, validate_only=dry_run)
    lines: list[Line] = []
    errors: list[str] = []
    for result in results:
        existed = result.error is not None and result.error.code is ErrorCode.TOPIC_ALREADY_EXISTS
        if result.error is None:
            lines.append(Line(f"{'would create' if dry_run else 'created'} {_described(result)}"))
        elif existed and if_not_exists:
            lines.append(Line(f"topic {result.name} exists"))
        else:
            errors.append(str(result.error))
    shapes = [
        {
            "name": result.name,
            "id": uuid_text(result.topic_id),
            "partitions": result.partitions,
            "replication_factor": result.replication_factor,
            "created": result.error is None and not dry_run,
            "error": error_shape(result.error),
        }
        for result in results
    ]
    return Report({"dry_run": dry_run, "topics": shapes}, lines, errors)


def _described(result: TopicCreated) -> str:
    if result.partitions < 0:
        return f"topic {result.name}"
    return (
        f"topic {result.name}: partitions {result.partitions}, replication factor {result.replication_factor}"
    )


ALTER_EXAMPLES = """
$ everlog topic alter orders --config retention.ms=3600000
$ everlog topic alter orders --delete-config retention.ms --dry-run
"""


@command("alter", examples=ALTER_EXAMPLES)
@click.argument("name", metavar="TOPIC", shell_complete=complete_topics)
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting; repeatable.")
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", help="Back to the broker's value.")
@dry_run_option
@bootstrap_option
def alter(
    *,
    name: str,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Change settings of a topic; the others stay as they are."""
    if not configs and not deleted:
        raise click.UsageError("nothing to change: expected --config KEY=VALUE or --delete-config KEY")
    resource = Resource(ResourceType.TOPIC, name)
    with Cluster(bootstrap, timeout=timeout) as cluster:
        return alter_resource(
            Admin(cluster), resource, key_values(configs, "--config"), deleted, dry_run=dry_run
        )


DELETE_EXAMPLES = """
$ everlog topic delete orders
$ everlog topic delete orders audit --yes
$ everlog topic delete orders --dry-run
"""


@command("delete", examples=DELETE_EXAMPLES)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…", shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Topics that do not exist are no error.")
@yes_option
@dry_run_option
@bootstrap_option
def delete(
    *,
    names: tuple[str, ...],
    if_exists: bool,
    yes: bool,
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Delete topics and all of their records. That cannot be undone."""
    with Cluster(bootstrap, timeout=timeout) as cluster:
        admin = Admin(cluster)
        if dry_run:
            found = [(topic.name, topic.error) for topic in admin.describe_topics(names)]
            errors = [
                f"topic {name!r}: {code.name}"
                for name, code in found
                if code is not ErrorCode.NONE and not if_exists
            ]
            there = [name for name, code in found if code is ErrorCode.NONE]
            lines = [Line(f"would delete topic {name}") for name in there]
            spared = [{"name": name, "deleted": False, "error": None} for name in there]
            return Report({"dry_run": True, "topics": spared}, lines, errors)
        if not confirm(f"Delete {', '.join(names)} and all records in them?", yes=yes):
            raise click.Abort
        results = admin.delete_topics(names)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    failed = [
        result.error
        for result in results
        if result.error is not None and not (if_exists and result.error.code is missing)
    ]
    done = [Line(f"deleted topic {result.name}") for result in results if result.error is None]
    shapes = [
        {"name": result.name, "deleted": result.error is None, "error": error_shape(result.error)}
        for result in results
    ]
    return Report({"dry_run": False, "topics": shapes}, done, [str(error) for error in failed])


ADD_EXAMPLES = """
$ everlog topic add-partitions orders --total 12
$ everlog topic add-partitions orders --total 12 --dry-run
"""


@command("add-partitions", examples=ADD_EXAMPLES)
@click.argument("name", metavar="TOPIC", shell_complete=complete_topics)
@click.option(
    "--total",
    type=click.IntRange(min=1),
    metavar="N",
    required=True,
    help="How many partitions there shall be.",
)
@dry_run_option
@bootstrap_option
def add_partitions(*, name: str, total: int, dry_run: bool, bootstrap: str, timeout: float) -> Report:
    """Give a topic more partitions.

    Records stay where they are, but keys may go to other partitions from then on.
    """
    with Cluster(bootstrap, timeout=timeout) as cluster:
        results = Admin(cluster).add_partitions({name: total}, validate_only=dry_run)
    would = "would have" if dry_run else "has"
    lines = [
        Line(f"topic {result.name} {would} {total} partitions") for result in results if not result.error
    ]
    data: dict[str, object] = {
        "dry_run": dry_run,
        "topic": name,
        "partitions": total,
        "error": error_shape(next((result.error for result in results), None)),
    }
    return Report(data, lines, [str(result.error) for result in results if result.error])
