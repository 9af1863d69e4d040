"""`everlog cluster describe`."""

from everlog.cli.cluster_facts import describe_brokers, directories
from everlog.cli.command import command
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Fields, Report, Table
from everlog.cli.shapes import error_shape, size_text
from everlog.client.core.admin.log_dirs import LogDir

EXAMPLES = """
$ everlog cluster describe
$ everlog cluster describe -b broker-1:9092,broker-2:9092 --json
"""


@command("describe", examples=EXAMPLES)
@bootstrap_option
def describe(*, bootstrap: str, timeout: float) -> Report:
    """Show the cluster's id, its brokers and the directories they keep their logs in."""
    with open_admin(bootstrap, timeout) as admin:
        described = describe_brokers(admin)
        topics = list(admin.describe_topics().values())
        log_dirs, unreachable = directories(admin, described)
    partitions = [partition for topic in topics for partition in topic.partitions.values()]
    under_replicated = sum(len(partition.isr) < len(partition.replicas) for partition in partitions)
    leaderless = sum(partition.leader < 0 for partition in partitions)
    data = {
        "cluster_id": described.cluster_id,
        "controller": described.controller_id,
        "topics": len(topics),
        "partitions": len(partitions),
        "under_replicated_partitions": under_replicated,
        "leaderless_partitions": leaderless,
        "brokers": [
            {
                "id": broker.node_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "fenced": broker.node_id in described.fenced,
                "leads": sum(partition.leader == broker.node_id for partition in partitions),
                "log_dirs": [_log_dir_shape(entry) for entry in log_dirs if entry.broker == broker.node_id],
            }
            for broker in described.brokers
        ],
    }
    facts = Fields(
        [
            ("cluster", described.cluster_id),
            ("controller", described.controller_id),
            ("topics", len(topics)),
            ("partitions", len(partitions)),
            ("under-replicated", under_replicated),
            ("without leader", leaderless),
        ]
    )
    rows = [
        (
            broker.node_id,
            broker.address,
            broker.rack,
            "fenced" if broker.node_id in described.fenced else "serves",
            sum(partition.leader == broker.node_id for partition in partitions),
            ", ".join(entry.path for entry in log_dirs if entry.broker == broker.node_id),
            size_text(
                sum(
                    sum(entry.partition_bytes.values())
                    for entry in log_dirs
                    if entry.broker == broker.node_id
                )
            ),
        )
        for broker in described.brokers
    ]
    header = ("BROKER", "ADDRESS", "RACK", "STATE", "LEADS", "LOG DIRECTORIES", "SIZE")
    errors = [str(entry.error) for entry in log_dirs if entry.error is not None]
    errors += [f"broker {broker} does not tell its directories: {why}" for broker, why in unreachable.items()]
    return Report(data, [facts, Table(header, rows)], errors)


def _log_dir_shape(log_dir: LogDir) -> dict[str, object]:
    return {
        "path": log_dir.path,
        "partitions": len(log_dir.partition_bytes),
        "bytes": sum(log_dir.partition_bytes.values()),
        "total_bytes": log_dir.total_bytes,
        "usable_bytes": log_dir.usable_bytes,
        "error": error_shape(log_dir.error),
    }
