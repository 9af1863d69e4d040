"""One bit flips in what says which cluster a node belongs to, and what is in it (L10, R8).

The metadata log and its snapshots have checksums: after a flip the node has the whole cluster, or does not
start. `meta.properties` and `quorum-state` have none, in Kafka's formats. Whatever cannot have been written
so is refused; a wrong letter in an id, or a wrong digit in an epoch or a vote, is one that can.
"""

from collections.abc import Iterator

import pytest

from everlog.controller.metadata_log import METADATA_PARTITION
from everlog.model.errors import CorruptDataError, EverlogError
from everlog.raft.store import QuorumStore
from everlog.sim.chance import SimRandom
from everlog.sim.disk import SimFiles
from everlog.sim.platter import Loss
from tests.unit.broker.simulated import DATA, SimulatedNode

PATH = f"{DATA}/{METADATA_PARTITION}"
OFTEN = "2000"
STEP = 11

Topics = frozenset[tuple[str, bytes, int]]


def topics_of(node: SimulatedNode) -> Topics:
    topics = node.node.keeper.image.topics.values()
    return frozenset((topic.name, topic.id, len(topic.partitions)) for topic in topics)


def a_stopped_node() -> SimulatedNode:
    """A node with a log of several segments and two snapshots."""
    node = SimulatedNode(metadata_log_max_record_bytes_between_snapshots=OFTEN)
    for number in range(30):
        node.create_topic(f"topic-{number}")
    node.node.close()
    return node


def copy_of(files: SimFiles) -> SimFiles:
    return files.after_crash(SimRandom(0), Loss.NONE)


def flipped(files: SimFiles, suffix: str, step: int = STEP) -> Iterator[tuple[str, int, SimFiles]]:
    """The disk with one bit flipped, for every so many bytes of the files of a kind."""
    count = 0
    for path, content in files.tree().items():
        if content is None or not path.endswith(suffix) or not path.startswith((PATH, f"{DATA}/meta")):
            continue
        for position in range(0, len(content), step):
            damaged = copy_of(files)
            damaged.flip_bit(path, position, count % 8)
            count += 1
            yield path, position, damaged
    assert count > 20, f"there is nothing that ends in {suffix}"


def started(files: SimFiles) -> SimulatedNode | None:
    """A node that has started on the files; None if it would not."""
    try:
        return SimulatedNode(files, metadata_log_max_record_bytes_between_snapshots=OFTEN)
    except EverlogError:
        return None


@pytest.mark.parametrize("suffix", [".log", ".checkpoint"])
def test_a_node_that_starts_has_all_of_its_cluster(suffix: str) -> None:
    node = a_stopped_node()
    truth = topics_of(node)
    refused = 0

    for path, position, damaged in flipped(node.files, suffix):
        again = started(damaged)
        refused += again is None
        assert again is None or topics_of(again) == truth, f"{path} byte {position}"

    assert refused > 50


def test_after_a_crash_what_was_durable_is_there_or_the_node_does_not_start() -> None:
    node = a_stopped_node()
    durable = topics_of(node)
    node.start()
    for number in range(5):
        node.create_topic(f"late-{number}")
    truth = topics_of(node)
    refused = 0

    for path, position, damaged in flipped(node.files, ".log", 2 * STEP):
        again = started(damaged)
        refused += again is None
        # Behind what was known to be durable, damage cannot be told from a torn write.
        assert again is None or durable <= topics_of(again) <= truth, f"{path} byte {position}"

    assert refused > 20


def test_an_undamaged_copy_starts() -> None:
    node = a_stopped_node()
    truth = topics_of(node)

    again = started(copy_of(node.files))

    assert again is not None
    assert topics_of(again) == truth


def could_be_so(text: str, position: int, keys: tuple[str, ...]) -> bool:
    """Whether a position lies in the value of one of the keys."""
    for key in keys:
        begin = text.index(key) + len(key)
        end = begin
        while end < len(text) and text[end] not in '",\n':
            end += 1
        if begin <= position < end:
            return True
    return False


def test_only_an_id_can_be_wrong_in_meta_properties() -> None:
    node = a_stopped_node()
    truth = topics_of(node)
    refused = 0

    for path, position, damaged in flipped(node.files, "meta.properties", 1):
        again = started(damaged)
        if again is None:
            refused += 1
            continue
        assert topics_of(again) == truth
        text = node.files.read(path).decode()
        assert could_be_so(text, position, ("cluster.id=", "directory.id=")), f"byte {position} of {text!r}"

    assert refused > 50


def test_only_a_digit_or_an_id_can_be_wrong_in_a_quorum_state() -> None:
    node = a_stopped_node()
    refused = 0

    for path, position, damaged in flipped(node.files, "quorum-state", 1):
        try:
            QuorumStore(damaged, PATH).read()
        except CorruptDataError:
            refused += 1
            continue
        text = node.files.read(path).decode()
        keys = ('"leaderId":', '"leaderEpoch":', '"votedId":', '"votedDirectoryId":"')
        assert could_be_so(text, position, keys), f"byte {position} of {text!r}"

    assert refused > 70
