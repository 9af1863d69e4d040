"""`everlog quorum describe`."""

from everlog.cli.command import command
from everlog.cli.connect import open_admin
from everlog.cli.options import bootstrap_option
from everlog.cli.output import Fields, Report, Table
from everlog.cli.shapes import span_text
from everlog.client.core.admin.cluster import Quorum, QuorumReplica
from everlog.model.ids import NO_UUID, uuid_text

EXAMPLES = """
$ everlog quorum describe
$ everlog quorum describe --json | jq '.voters[] | {node_id, lag}'
"""


@command("describe", examples=EXAMPLES)
@bootstrap_option
def describe(*, bootstrap: str, timeout: float) -> Report:
    """Show the quorum that keeps the cluster's metadata: who leads, who votes, who follows, and how far.

    Voters decide what is committed; observers, such as brokers without a vote, follow. LAG counts records
    behind the leader; CAUGHT UP is when a node last had all that the leader had.
    """
    with open_admin(bootstrap, timeout) as admin:
        quorum = admin.describe_quorum()
    data = {
        "leader": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [_shape(quorum, replica) for replica in quorum.voters],
        "observers": [_shape(quorum, replica) for replica in quorum.observers],
    }
    facts = Fields(
        [
            ("leader", quorum.leader_id),
            ("epoch", quorum.leader_epoch),
            ("high watermark", quorum.high_watermark),
            ("largest lag of a voter", max((_lag(quorum, each) for each in quorum.voters), default=0)),
        ]
    )
    rows = [
        *(_row(quorum, replica, "voter") for replica in quorum.voters),
        *(_row(quorum, replica, "observer") for replica in quorum.observers),
    ]
    header = ("NODE", "ROLE", "ENDPOINTS", "END OFFSET", "LAG", "CAUGHT UP", "DIRECTORY ID")
    return Report(data, [facts, Table(header, rows)])


def _row(quorum: Quorum, replica: QuorumReplica, role: str) -> tuple[str | int | None, ...]:
    behind_ms = _behind_ms(quorum, replica)
    return (
        replica.node_id,
        "leader" if replica.node_id == quorum.leader_id else role,
        ", ".join(f"{each.host}:{each.port}" for each in quorum.endpoints.get(replica.node_id, ())) or None,
        replica.log_end_offset,
        _lag(quorum, replica),
        None if behind_ms is None else f"{span_text(behind_ms)} ago",
        None if replica.directory_id == NO_UUID else uuid_text(replica.directory_id),
    )


def _shape(quorum: Quorum, replica: QuorumReplica) -> dict[str, object]:
    return {
        "node_id": replica.node_id,
        "directory_id": None if replica.directory_id == NO_UUID else uuid_text(replica.directory_id),
        "endpoints": [
            {"listener": each.listener, "host": each.host, "port": each.port}
            for each in quorum.endpoints.get(replica.node_id, ())
        ],
        "log_end_offset": replica.log_end_offset,
        "lag": _lag(quorum, replica),
        "last_fetch_timestamp": replica.last_fetch_timestamp,
        "last_caught_up_timestamp": replica.last_caught_up_timestamp,
    }


def _leader(quorum: Quorum) -> QuorumReplica | None:
    return next((each for each in quorum.voters if each.node_id == quorum.leader_id), None)


def _lag(quorum: Quorum, replica: QuorumReplica) -> int:
    leader = _leader(quorum)
    return 0 if leader is None else max(0, leader.log_end_offset - replica.log_end_offset)


def _behind_ms(quorum: Quorum, replica: QuorumReplica) -> int | None:
    leader = _leader(quorum)
    if leader is None or leader.last_caught_up_timestamp is None or replica.last_caught_up_timestamp is None:
        return None
    return max(0, leader.last_caught_up_timestamp - replica.last_caught_up_timestamp)
