"""`everlog mirror offsets`."""

import click

from everlog.cli.client_config import client_config, read_client_config
from everlog.cli.command import command
from everlog.cli.completers import complete_groups, complete_topics
from everlog.cli.connect import limit_ms_of
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Block, Cell, Line, Report, Table
from everlog.cli.shapes import counted
from everlog.client.core.addresses import parse_bootstrap
from everlog.mirror.groups import GroupPlace, move_group, translate_group
from everlog.mirror.mirror import Mirror
from everlog.model.errors import ConfigError

EXAMPLES = """
$ everlog mirror offsets --group billing --target 127.0.0.1:9192             # shows where it would go on
$ everlog mirror offsets --group billing --target 127.0.0.1:9192 --execute   # commits it there
$ everlog mirror offsets --group billing --target us:9092 --mirror-topic 'eu.{topic}' --json
"""


@command("offsets", examples=EXAMPLES)
@click.option(
    "--group", "group_id", required=True, metavar="GROUP", shell_complete=complete_groups, help="The group."
)
@click.option(
    "--target", required=True, metavar="HOST:PORT[,…]", help="Where to find the cluster that has the mirror."
)
@click.option(
    "--target-config",
    metavar="FILE",
    help="What --client-config is for the source, for the target.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Only this topic of the source; repeatable.",
)
@click.option(
    "--mirror-topic",
    default="{topic}",
    show_default=True,
    metavar="NAME",
    help="What a mirror is called; {topic} stands for the topic's own name.",
)
@click.option(
    "--dry-run/--execute",
    "dry_run",
    default=True,
    show_default=True,
    help="Show the offsets, or commit them for the group in the mirror.",
)
@bootstrap_option
def offsets(
    *,
    group_id: str,
    target: str,
    target_config: str | None,
    topics: tuple[str, ...],
    mirror_topic: str,
    dry_run: bool,
    bootstrap: str,
    timeout: float,
) -> Report:
    """Tell where a group of this cluster goes on in the mirror, and with --execute commit that there.

    RESUMES is `exactly` where the group goes on with the very next record, and `earlier` where it gets some
    records again: where the mirror is behind the group, or what it noted then is gone. No record is skipped.
    The group must have no members in the target.
    """
    options = {"default_api_timeout_ms": limit_ms_of(timeout), "client_id": "everlog-cli"}
    there = {} if target_config is None else read_client_config(target_config)
    try:
        parse_bootstrap(target)
        mirror = Mirror(
            bootstrap,
            target,
            topic=mirror_topic,
            source_options={**options, **client_config()},
            target_options={**options, **there},
        )
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    places = translate_group(mirror, group_id, set(topics) or None)
    if not dry_run:
        move_group(mirror, group_id, places)
    rows: list[list[Cell]] = [
        [
            place.source.topic,
            place.source.partition,
            place.committed,
            place.target.topic,
            place.translated.offset,
            "exactly" if place.translated.is_exact else "earlier",
        ]
        for place in places
    ]
    header = ("TOPIC", "PARTITION", "COMMITTED", "MIRROR", "OFFSET", "RESUMES")
    blocks: list[Block] = [Table(header, rows)]
    if dry_run:
        blocks.append(Line("nothing was changed: --execute commits these offsets"))
    else:
        blocks.append(Line(f"committed {counted(len(places), 'offset')} of {group_id} at {target}"))
    return Report(
        {"group": group_id, "dry_run": dry_run, "partitions": [_shape(place) for place in places]}, blocks
    )


def _shape(place: GroupPlace) -> dict[str, object]:
    return {
        "topic": place.source.topic,
        "partition": place.source.partition,
        "committed_offset": place.committed,
        "mirror_topic": place.target.topic,
        "mirror_offset": place.translated.offset,
        "exact": place.translated.is_exact,
    }
