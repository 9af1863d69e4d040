"""`everlog topic list|describe`."""

import click

from everlog.cli.command import command
from everlog.cli.completers import complete_topics
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Block, Fields, Line, Report, Table
from everlog.cli.shapes import error_shape
from everlog.client.core.admin.configs import ConfigResource, ConfigSource
from everlog.client.core.admin.offset_listing import OffsetAt
from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.topics import TopicDescription
from everlog.client.core.metadata import Partition
from everlog.client.sync.admin import Admin
from everlog.model.errors import Refused
from everlog.model.ids import uuid_text
from everlog.model.topics import TopicPartition

LIST_EXAMPLES = """
$ everlog topic list
$ everlog topic list --internal --json
"""


@command("list", examples=LIST_EXAMPLES)
@click.option("--internal", is_flag=True, help="Also those that the cluster keeps for itself.")
@bootstrap_option
def list_topics(*, internal: bool, bootstrap: str, timeout: float) -> Report:
    """List the topics of a cluster."""
    with open_admin(bootstrap, timeout) as admin:
        topics = [topic for topic in admin.describe_topics().values() if internal or not topic.is_internal]
    rows = [(topic.name, len(topic.partitions), _replication(topic)) for topic in topics]
    shapes = [
        {
            "name": topic.name,
            "id": uuid_text(topic.topic_id),
            "internal": topic.is_internal,
            "partitions": len(topic.partitions),
            "replication_factor": _replication(topic),
        }
        for topic in topics
    ]
    text: Block = Table(("TOPIC", "PARTITIONS", "REPLICAS"), rows) if rows else Line("no topics")
    return Report({"topics": shapes}, [text])


DESCRIBE_EXAMPLES = """
$ everlog topic describe orders
$ everlog topic describe orders --json | jq '.topics[0].partitions[].end_offset'
"""


@command("describe", examples=DESCRIBE_EXAMPLES)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…", shell_complete=complete_topics)
@bootstrap_option
def describe(*, names: tuple[str, ...], bootstrap: str, timeout: float) -> Report:
    """Show a topic's partitions with their leaders, replicas and offsets, and its own settings."""
    blocks: list[Block] = []
    shapes: list[dict[str, object]] = []
    errors: list[str] = []
    failed: dict[str, Refused] = {}
    with open_admin(bootstrap, timeout) as admin:
        try:
            found = admin.describe_topics(names)
        except ItemsRefused as error:
            found, failed = error.done, error.errors
        for name in dict.fromkeys(names):
            if name in failed:
                errors.append(str(failed[name]))
                shapes.append({"name": name, "error": error_shape(failed[name])})
                continue
            described, text = _describe(admin, found[name])
            shapes.append(described)
            blocks.extend([Line(""), *text] if blocks else text)
    return Report({"topics": shapes}, blocks, errors)


def _offsets(admin: Admin, places: list[TopicPartition], at: OffsetAt) -> dict[TopicPartition, int]:
    """The offset of each partition that can be asked; one whose leader is gone is left out."""
    try:
        listed = admin.list_offsets(places, at)
    except ItemsRefused as error:
        listed = error.done
    return {place: entry.offset for place, entry in listed.items() if entry is not None}


def _describe(admin: Admin, topic: TopicDescription) -> tuple[dict[str, object], list[Block]]:
    led = [index for index, partition in topic.partitions.items() if partition.leader >= 0]
    places = [TopicPartition(topic.name, index) for index in led]
    starts = _offsets(admin, places, OffsetAt.EARLIEST)
    ends = _offsets(admin, places, OffsetAt.LATEST)
    resource = ConfigResource.topic(topic.name)
    own = {
        entry.name: entry.value
        for entry in admin.describe_configs([resource])[resource].values()
        if entry.source is ConfigSource.TOPIC
    }
    partitions = [topic.partitions[index] for index in sorted(topic.partitions)]
    shape: dict[str, object] = {
        "name": topic.name,
        "id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "replication_factor": _replication(topic),
        "configs": own,
        "partitions": [_partition_shape(topic.name, partition, starts, ends) for partition in partitions],
        "error": None,
    }
    rows = [
        (
            partition.index,
            partition.leader if partition.leader >= 0 else None,
            partition.leader_epoch,
            ",".join(map(str, partition.replicas)),
            ",".join(map(str, partition.isr)),
            starts.get(TopicPartition(topic.name, partition.index)),
            ends.get(TopicPartition(topic.name, partition.index)),
        )
        for partition in partitions
    ]
    settings = ", ".join(f"{name}={value}" for name, value in own.items())
    facts = Fields(
        [
            ("topic", topic.name),
            ("id", uuid_text(topic.topic_id)),
            ("partitions", len(partitions)),
            ("replicas", _replication(topic)),
            ("settings", settings or None),
        ]
    )
    header = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END")
    return shape, [facts, Table(header, rows)]


def _partition_shape(
    topic: str,
    partition: Partition,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[str, object]:
    place = TopicPartition(topic, partition.index)
    return {
        "partition": partition.index,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "offline_replicas": list(partition.offline),
        "start_offset": starts.get(place),
        "end_offset": ends.get(place),
    }


def _replication(topic: TopicDescription) -> int:
    return max((len(partition.replicas) for partition in topic.partitions.values()), default=0)
