"""`everlog config set|delete`, and the change of settings that `topic alter` shares with them."""

from collections.abc import Mapping, Sequence

import click

from everlog.cli.command import command
from everlog.cli.config_view import resource_arguments, resource_of
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option, dry_run_option, key_values
from everlog.cli.output import Line, Report
from everlog.cli.shapes import error_shape
from everlog.client.core.admin.configs import ConfigChange, ConfigOperation, ConfigResource
from everlog.client.sync.admin import Admin
from everlog.model.errors import Refused

SET_EXAMPLES = """
$ everlog config set topic orders retention.ms=3600000 cleanup.policy=compact,delete
$ everlog config set broker all log.retention.ms=3600000 --dry-run
"""


@command("set", examples=SET_EXAMPLES)
@resource_arguments
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE…")
@dry_run_option
@bootstrap_option
def set_configs(
    *, kind: str, name: str, pairs: tuple[str, ...], dry_run: bool, bootstrap: str, timeout: float
) -> Report:
    """Set settings of a topic, of one broker, or of all brokers (`broker all`)."""
    changes = key_values(pairs, "setting")
    with open_admin(bootstrap, timeout) as admin:
        return alter_resource(admin, resource_of(kind, name), changes, (), dry_run=dry_run)


DELETE_EXAMPLES = """
$ everlog config delete topic orders retention.ms
$ everlog config delete broker 1 log.retention.ms
"""


@command("delete", examples=DELETE_EXAMPLES)
@resource_arguments
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@dry_run_option
@bootstrap_option
def delete_configs(
    *, kind: str, name: str, keys: tuple[str, ...], dry_run: bool, bootstrap: str, timeout: float
) -> Report:
    """Let settings fall back to what the broker's file or the default says."""
    with open_admin(bootstrap, timeout) as admin:
        return alter_resource(admin, resource_of(kind, name), {}, keys, dry_run=dry_run)


def alter_resource(
    admin: Admin,
    resource: ConfigResource,
    wanted: Mapping[str, str],
    deleted: Sequence[str],
    *,
    dry_run: bool,
) -> Report:
    """Make the changes, all or none, and report them."""
    changes = [ConfigChange(key, ConfigOperation.SET, value) for key, value in wanted.items()]
    changes += [ConfigChange(key, ConfigOperation.DELETE) for key in deleted]
    problem: Refused | None = None
    try:
        admin.alter_configs({resource: changes}, validate_only=dry_run)
    except Refused as error:
        problem = error
    data = {
        "dry_run": dry_run,
        "kind": resource.kind.name.lower(),
        "name": resource.name,
        "set": dict(wanted),
        "deleted": list(deleted),
        "error": error_shape(problem),
    }
    if problem is not None:
        return Report(data, errors=[str(problem)])
    would = "would " if dry_run else ""
    lines = [Line(f"{would}set {key}={value} of {resource}") for key, value in wanted.items()]
    lines += [Line(f"{'would delete' if dry_run else 'deleted'} {key} of {resource}") for key in deleted]
    return Report(data, lines)
