"""A node whose metadata log begins anew from snapshots has the same cluster after every stop (R8)."""

from everlog.controller.metadata_log import METADATA_PARTITION
from everlog.raft.snapshots import SnapshotFiles
from everlog.sim.chance import SimRandom
from everlog.sim.platter import Loss
from tests.unit.broker.simulated import DATA, SimulatedNode

PATH = f"{DATA}/{METADATA_PARTITION}"


def topics_of(node: SimulatedNode) -> list[tuple[str, bytes, int]]:
    """What no restart changes: leaders and their epochs do."""
    topics = node.node.keeper.image.topics.values()
    return [(topic.name, topic.id, len(topic.partitions)) for topic in topics]


def with_topics() -> SimulatedNode:
    node = SimulatedNode(metadata_log_max_record_bytes_between_snapshots="2000")
    for number in range(30):
        node.create_topic(f"topic-{number}")
    return node


def test_a_node_starts_from_its_newest_snapshot() -> None:
    node = with_topics()
    quorum = node.node.quorum
    assert len(SnapshotFiles(node.files, PATH).found()) == 2
    assert 0 < quorum.start_offset < quorum.end_offset
    before, features = topics_of(node), node.node.keeper.image.features

    node.node.close()
    node.start()

    assert topics_of(node) == before
    assert node.node.keeper.image.features == features
    assert node.node.quorum.start_offset > 0


def test_a_crash_takes_nothing_of_the_cluster() -> None:
    for loss in Loss:
        node = with_topics()
        before = topics_of(node)

        node.files = node.files.after_crash(SimRandom(1), loss)
        node.start()

        assert topics_of(node) == before, loss


def test_what_a_snapshot_stands_for_leaves_the_disk() -> None:
    node = with_topics()
    for _ in range(40):
        node.pass_time(10_000)
        node.aside.run_all()

    logs = sorted(name for name in node.files.names(PATH) if name.endswith(".log"))

    assert int(logs[0].removesuffix(".log")) > 0, logs
