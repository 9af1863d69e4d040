"""`everlog topic create|alter|delete|add-partitions`."""

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.config_change import alter_resource
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option, confirm, dry_run_option, key_values, yes_option
from everlog.cli.output import Line, Report
from everlog.cli.shapes import error_shape
from everlog.client.core.admin.configs import ConfigResource
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.topics import BROKER_DEFAULT, NewTopic, TopicCreated
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, uuid_text

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
    failed: dict[str, Refused] = {}
    with open_admin(bootstrap, timeout) as admin:
        try:
            created = admin.create_topics(wanted, validate_only=dry_run)
        except ItemsRefused as error:
            created, failed = error.done, error.errors
    lines: list[Line] = []
    errors: list[str] = []
    shapes: list[dict[str, object]] = []
    for name in dict.fromkeys(names):
        problem = failed.get(name)
        result = created.get(name) or TopicCreated(name, NO_UUID)
        if problem is None:
            lines.append(Line(f"{'would create' if dry_run else 'created'} {_described(result)}"))
        elif problem.code is ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
            lines.append(Line(f"topic {name} exists"))
        else:
            errors.append(str(problem))
        shapes.append(
            {
                "name": name,
                "id": uuid_text(result.topic_id),
                "partitions": result.partitions,
                "replication_factor": result.replication_factor,
                "created": problem is None and not dry_run,
                "error": error_shape(problem),
            }
        )
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
    resource = ConfigResource.topic(name)
    with open_admin(bootstrap, timeout) as admin:
        return alter_resource(admin, resource, key_values(configs, "--config"), deleted, dry_run=dry_run)


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
    failed: dict[str, Refused] = {}
    with open_admin(bootstrap, timeout) as admin:
        if not dry_run and not confirm(f"Delete {', '.join(names)} and all records in them?", yes=yes):
            raise click.Abort
        try:
            if dry_run:
                admin.describe_topics(names)
            else:
                admin.delete_topics(names)
        except ItemsRefused as error:
            failed = error.errors
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    errors = [str(error) for error in failed.values() if not (if_exists and error.code is missing)]
    did = "would delete" if dry_run else "deleted"
    lines = [Line(f"{did} topic {name}") for name in dict.fromkeys(names) if name not in failed]
    shapes = [
        {
            "name": name,
            "deleted": name not in failed and not dry_run,
            "error": error_shape(failed.get(name)),
        }
        for name in dict.fromkeys(names)
    ]
    return Report({"dry_run": dry_run, "topics": shapes}, lines, errors)


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
    problem: Refused | None = None
    with open_admin(bootstrap, timeout) as admin:
        try:
            admin.create_partitions({name: total}, validate_only=dry_run)
        except ItemsRefused as error:
            problem = error
    data: dict[str, object] = {
        "dry_run": dry_run,
        "topic": name,
        "partitions": total,
        "error": error_shape(problem),
    }
    if problem is not None:
        return Report(data, errors=[str(problem)])
    return Report(data, [Line(f"topic {name} {'would have' if dry_run else 'has'} {total} partitions")])
