"""A log directory that fails: the broker goes on with the others and the controller hears of it (KIP-858)."""

import errno
from dataclasses import replace

import pytest

from everlog.model.errors import ErrorCode, StorageError
from everlog.model.ids import BrokerId
from everlog.sim.disk import SimFiles
from everlog.sim.faults import Fault, Kind
from everlog.wire.messages.fetch import FetchResponse
from everlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from everlog.wire.messages.produce import ProduceResponse
from tests.unit.broker.simulated import SimulatedNode, a_batch, a_fetch, a_produce, records_of

FIRST, SECOND = "/data", "/more"
CHANGES = (Kind.APPEND, Kind.SYNC, Kind.CREATE, Kind.RENAME, Kind.SYNC_DIR, Kind.MAKE_DIR, Kind.UNLINK)


def two_disks(files: SimFiles | None = None, **more: str) -> SimulatedNode:
    """A node with two directories; the first has the metadata log."""
    return SimulatedNode(files, log_dirs=f"{FIRST},{SECOND}", **more)


def fail(node: SimulatedNode, part: str, number: int = errno.EIO) -> None:
    """Let the disk at a path refuse every change from now on."""
    node.files.faults.extend(Fault(kind, number, part) for kind in CHANGES)


def produce(node: SimulatedNode, index: int, *values: bytes) -> int:
    answer = node.client().call(a_produce("t", (index, a_batch(*values))), 9, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def seen(node: SimulatedNode, index: int) -> tuple[int, list[int]]:
    """Who leads a partition and which replicas are offline, as a client is told."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    (topic,) = node.client().call(request, 9, MetadataResponse).topics
    (found,) = [one for one in topic.partitions if one.partition_index == index]
    return found.leader_id, found.offline_replicas


def values(node: SimulatedNode, index: int) -> list[bytes | None]:
    """The values of all records of a partition."""
    answer = node.client().call(a_fetch("t", *[0] * (index + 1)), 12, FetchResponse)
    return [record.value for record in records_of(answer.responses[0].partitions[index])]


def filled() -> tuple[SimulatedNode, int, int]:
    """A node with a partition in each directory, and a record in each; the numbers of both."""
    node = two_disks()
    node.create_topic("t", 2)
    for index in (0, 1):
        assert produce(node, index, b"kept") == 0
    settle(node)
    paths = [node.replica("t", index).directory for index in (0, 1)]
    return node, paths.index(FIRST), paths.index(SECOND)


def settle(node: SimulatedNode, ms: int = 3_000) -> None:
    """Let time pass with the work beside the loop done."""
    for _ in range(ms // 100):
        node.pass_time(100)
        node.aside.run_all()


def directories(node: SimulatedNode, index: int) -> list[str]:
    """Where a partition lies as the controller knows it."""
    ids = {node.broker.health.id_of(path): path for path in (FIRST, SECOND)}
    return [ids.get(one, "") for one in node.broker.image.topics["t"].partitions[index].directories]


def test_the_controller_is_told_where_replicas_lie() -> None:
    node, first, second = filled()
    assert directories(node, first) == [FIRST]
    assert directories(node, second) == [SECOND]
    records = node.node.quorum.end_offset
    settle(node, 10_000)
    assert node.node.quorum.end_offset == records, "it is told once"


def test_a_directory_that_fails_takes_its_partitions_along_and_no_others() -> None:
    node, first, second = filled()
    fail(node, SECOND)
    assert produce(node, second, b"lost") == ErrorCode.KAFKA_STORAGE_ERROR
    settle(node)
    assert seen(node, second) == (-1, [1])
    assert produce(node, second, b"lost") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert seen(node, first) == (1, [])
    assert produce(node, first, b"more") == 0
    node.create_topic("u", 3)
    assert all(node.replica("u", index).opened().path.startswith(FIRST) for index in range(3))


def test_a_directory_that_was_repaired_is_back_after_a_restart() -> None:
    node, _, second = filled()
    fail(node, SECOND)
    produce(node, second, b"lost")
    settle(node)
    node.node.close()
    node.files.faults.clear()
    again = two_disks(node.files)
    settle(again)
    assert seen(again, second) == (1, [])
    assert values(again, second) == [b"kept"]
    assert produce(again, second, b"more") == 0


def test_a_node_that_starts_without_a_directory_does_not_make_its_partitions_anew() -> None:
    node, first, second = filled()
    node.node.close()
    fail(node, SECOND)
    again = two_disks(node.files)
    settle(again)
    assert seen(again, second) == (-1, [1])
    with pytest.raises(StorageError, match="has failed"):
        again.replica("t", second).opened()
    assert values(again, first) == [b"kept"]
    again.node.close()
    again.files.faults.clear()
    third = two_disks(again.files)
    assert values(third, second) == [b"kept"]


def test_a_directory_in_which_a_sync_has_failed_is_out_of_use() -> None:
    node = two_disks()
    node.create_topic("t", 2, flush_messages="1")
    for index in (0, 1):
        assert produce(node, index, b"kept") == 0
    settle(node)
    second = [node.replica("t", index).directory for index in (0, 1)].index(SECOND)
    node.files.faults.append(Fault(Kind.SYNC, errno.EIO, f"{SECOND}/t", times=1))
    assert produce(node, second, b"lost") == ErrorCode.KAFKA_STORAGE_ERROR
    settle(node)
    assert seen(node, second) == (-1, [1])


def test_one_refusal_is_one_files_matter() -> None:
    node, _, second = filled()
    node.files.faults.append(Fault(Kind.APPEND, errno.EIO, f"{SECOND}/t", times=1))
    assert produce(node, second, b"no") == ErrorCode.KAFKA_STORAGE_ERROR
    settle(node)
    assert seen(node, second) == (1, [])
    assert produce(node, second, b"yes") == 0


def test_a_full_disk_is_not_a_failed_one() -> None:
    node, _, second = filled()
    node.files.faults.extend(Fault(kind, errno.ENOSPC, SECOND) for kind in (Kind.APPEND, Kind.CREATE))
    assert produce(node, second, b"no") == ErrorCode.KAFKA_STORAGE_ERROR
    settle(node)
    assert seen(node, second) == (1, [])


def failing(disks: tuple[str, ...], number: int, *, alone: bool) -> tuple[SimulatedNode, list[StorageError]]:
    """A node whose first directory fails with an errno, and what was said to whoever runs the node."""
    node = SimulatedNode(log_dirs=",".join(disks))
    node.create_topic("t", 2)
    for index in (0, 1):
        produce(node, index, b"kept")
    ended: list[StorageError] = []
    node.node.on_failed = ended.append
    if not alone:
        brokers = node.broker.image.brokers
        other = replace(brokers[node.broker.node_id], id=BrokerId(2))
        node.broker.image = replace(node.broker.image, brokers={**brokers, BrokerId(2): other})
    fail(node, FIRST, number)
    for index in (0, 1):
        produce(node, index, b"lost")
    settle(node)
    return node, ended


@pytest.mark.parametrize("disks", [(FIRST, SECOND), (FIRST,)])
def test_others_take_over_without_the_last_directory_or_the_metadatas(disks: tuple[str, ...]) -> None:
    _, ended = failing(disks, errno.EIO, alone=False)
    assert FIRST in str(ended[0])


def test_a_broker_that_is_alone_goes_on_and_takes_records_again_when_its_disk_does() -> None:
    node, ended = failing((FIRST,), errno.EIO, alone=True)
    assert not ended
    assert values(node, 0) == [b"kept"]
    assert produce(node, 0, b"refused") == ErrorCode.KAFKA_STORAGE_ERROR
    node.files.faults.clear()
    assert produce(node, 0, b"after") == 0


def test_a_broker_that_is_alone_ends_when_its_directory_is_gone() -> None:
    _, ended = failing((FIRST,), errno.ENOENT, alone=True)
    assert FIRST in str(ended[0])
