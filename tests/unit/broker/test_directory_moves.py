"""Partitions that move from one log directory of a broker to another (KIP-113)."""

import errno

import pytest

from everlog.model.errors import ErrorCode
from everlog.model.ids import Offset
from everlog.model.settings.kinds import LONG_MAX
from everlog.records.batch import whole_batches
from everlog.records.reader import read_records
from everlog.sim.disk import SimFiles
from everlog.sim.faults import Fault, Kind
from everlog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from everlog.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from everlog.wire.messages.fetch import FetchResponse
from everlog.wire.messages.produce import ProduceResponse
from tests.unit.broker.simulated import SimulatedNode, a_batch, a_fetch, a_produce

FIRST, SECOND = "/data", "/more"
THROTTLE = "replica_alter_log_dirs_io_max_bytes_per_second"


def two_disks(files: SimFiles | None = None, **more: str) -> SimulatedNode:
    return SimulatedNode(files, log_dirs=f"{FIRST},{SECOND}", **more)


def produce(node: SimulatedNode, *values: bytes, producer: tuple[int, int, int] = (-1, -1, -1)) -> int:
    batch = a_batch(*values, producer=producer)
    answer = node.client().call(a_produce("t", (0, batch)), 9, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def values(node: SimulatedNode) -> list[bytes | None]:
    found: list[bytes | None] = []
    end = node.replica("t").opened().end_offset
    offset = node.replica("t").opened().start_offset
    while offset < end:
        answer = node.client().call(a_fetch("t", offset), 12, FetchResponse)
        data = answer.responses[0].partitions[0].records
        assert data is not None
        for batch in whole_batches(data):
            found += [one.value for one in read_records(batch) if one.offset >= offset]
            offset = Offset(batch.next_offset)
    return found


def alter(node: SimulatedNode, path: str, topic: str = "t", partition: int = 0) -> ErrorCode:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[partition])]
            )
        ]
    )
    client = node.client()
    client.ask(request, 2)
    (result,) = client.take(AlterReplicaLogDirsResponse).results
    assert result.topic_name == topic
    (one,) = result.partitions
    assert one.partition_index == partition
    return ErrorCode(one.error_code)


def described(node: SimulatedNode) -> dict[str, list[tuple[bool, int]]]:
    """For each directory, whether t-0 in it is on its way there, and how far behind."""
    client = node.client()
    client.ask(DescribeLogDirsRequest(topics=None), 4)
    return {
        result.log_dir: [
            (one.is_future_key, one.offset_lag)
            for topic in result.topics
            if topic.name == "t"
            for one in topic.partitions
            if one.partition_index == 0
        ]
        for result in client.take(DescribeLogDirsResponse).results
    }


def settle(node: SimulatedNode, ms: int = 1_000) -> None:
    for _ in range(ms // 50):
        node.pass_time(50)
        node.aside.run_all()


def other(path: str) -> str:
    return SECOND if path == FIRST else FIRST


def large(number: int) -> bytes:
    """A value of which not many fit into a segment."""
    return b"%d" % number + bytes(100_000)


def filled(count: int = 40, throttle: str = str(LONG_MAX)) -> tuple[SimulatedNode, str]:
    """A node with a partition that has some records, and where that is to go."""
    node = two_disks(None, **{THROTTLE: throttle})
    node.create_topic("t", 1, segment_bytes="1048576")
    for number in range(count):
        assert produce(node, large(number)) == 0
    return node, other(node.replica("t").directory)


def names(node: SimulatedNode, path: str) -> list[str]:
    return [name for name in node.files.names(path) if name.startswith("t-0")]


def test_a_partition_moves_with_all_that_is_known_of_it() -> None:
    node, target = filled()
    assert produce(node, b"idempotent", producer=(7, 0, 0)) == 0
    log = node.replica("t").opened()
    before = values(node)
    epochs, start = log.epochs.entries, log.start_offset
    assert alter(node, target) is ErrorCode.NONE
    settle(node)
    moved = node.replica("t").opened()
    assert moved is not log
    assert node.replica("t").directory == target
    assert values(node) == before
    assert (moved.epochs.entries, moved.start_offset) == (epochs, start)
    # What was sent before is known as sent.
    end = moved.end_offset
    assert produce(node, b"idempotent", producer=(7, 0, 0)) == 0
    assert moved.end_offset == end
    assert produce(node, b"more") == 0
    assert names(node, target) == ["t-0"]
    settle(node, 70_000)
    assert names(node, other(target)) == [], "the old files have gone"
    ids = node.broker.health
    assert node.broker.image.topics["t"].partitions[0].directories == (ids.id_of(target),)


def test_a_restart_finds_the_partition_where_it_moved_to() -> None:
    node, target = filled()
    alter(node, target)
    settle(node)
    produce(node, b"more")
    before = values(node)
    node.node.close()
    again = two_disks(node.files)
    assert values(again) == before
    assert again.replica("t").directory == target


def test_records_that_are_written_meanwhile_move_too() -> None:
    node, target = filled()
    alter(node, target)
    written = 0
    while node.replica("t").directory != target:
        assert produce_alone(node, b"meanwhile") == 0
        written += 1
        assert written < 1000
        node.pass_time(5)
        _ = node.aside.work() and node.aside.finish()
    assert written > 3
    assert len(values(node)) == 40 + written


def produce_alone(node: SimulatedNode, value: bytes) -> int:
    """Produce, and let nothing else be done."""
    client = node.client()
    client.ask(a_produce("t", (0, a_batch(value))), 9)
    return client.take(ProduceResponse).responses[0].partition_responses[0].error_code


def test_the_copy_is_shown_and_no_faster_than_the_throttle_allows() -> None:
    node, target = filled(throttle="100")
    produce(node, bytes(3 << 20))
    end = node.replica("t").opened().end_offset
    alter(node, target)
    assert described(node) == {target: [(True, end)], other(target): [(False, 0)]}
    settle(node)
    (copy,) = described(node)[target]
    assert copy[0]
    assert 0 < copy[1] < end
    settle(node, 10_000)
    assert described(node)[target] == [copy], "a large step is paid for before the next"


def test_a_move_is_cancelled_by_the_way_back_and_redirected_by_another() -> None:
    node, target = filled(throttle="1")
    before = values(node)
    alter(node, target)
    settle(node)
    assert [name.endswith("-future") for name in names(node, target)] == [True]
    assert alter(node, other(target)) is ErrorCode.NONE
    settle(node, 70_000)
    assert names(node, target) == []
    assert described(node) == {target: [], other(target): [(False, 0)]}
    assert values(node) == before
    assert produce(node, b"more") == 0


def test_a_move_that_a_restart_interrupts_is_begun_anew() -> None:
    node, target = filled(throttle="1")
    before = values(node)
    alter(node, target)
    settle(node)
    node.node.close()
    again = two_disks(node.files)
    settle(again, 2_000)
    assert again.replica("t").directory == target
    assert values(again) == before
    assert names(again, target)[0] == "t-0"


def test_what_is_deleted_meanwhile_does_not_come_back() -> None:
    node, target = filled(throttle="1")
    alter(node, target)
    settle(node)
    log = node.replica("t").opened()
    log.move_start_to(Offset(log.end_offset - 5))
    kept = values(node)
    node.broker.static_settings = node.broker.settings = two_disks().broker.settings
    settle(node, 20_000)
    assert node.replica("t").directory == target
    assert values(node) == kept
    assert len(kept) == 5


def test_a_log_that_is_cut_meanwhile_is_copied_anew() -> None:
    node, target = filled()
    alter(node, target)
    node.pass_time(1)
    node.aside.run_all()
    log = node.replica("t").opened()
    log.truncate_to(log.start_offset)
    for number in range(5):
        assert produce(node, b"other %d" % number) == 0
    settle(node)
    assert node.replica("t").directory == target
    assert values(node) == [b"other %d" % number for number in range(5)]


def test_a_topic_that_is_deleted_meanwhile_leaves_nothing() -> None:
    node, target = filled(throttle="1")
    alter(node, target)
    settle(node)
    node.broker.give_up(node.broker.replicas.remove_topic("t"))
    settle(node, 70_000)
    assert names(node, FIRST) == names(node, SECOND) == []


def test_a_directory_that_refuses_the_copy_leaves_the_partition_where_it_is() -> None:
    node, target = filled()
    before = values(node)
    node.files.faults.append(Fault(Kind.APPEND, errno.EIO, "-future/0"))
    alter(node, target)
    settle(node)
    assert node.replica("t").directory == other(target)
    assert values(node) == before
    assert produce(node, b"more") == 0
    assert described(node)[target] == []


def test_what_cannot_be_is_refused_by_code() -> None:
    node, target = filled()
    assert alter(node, "/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert alter(node, target, "unknown") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(node, target, partition=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.files.faults.extend(Fault(kind, errno.EIO, SECOND) for kind in (Kind.CREATE, Kind.APPEND))
    node.broker.health.suspect(node.broker.directories[1])
    settle(node)
    assert alter(node, SECOND) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("path", [FIRST, SECOND])
def test_a_partition_that_is_made_later_is_made_where_it_was_wished(path: str) -> None:
    node = two_disks()
    assert alter(node, path, "t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.create_topic("t", 2)
    assert alter(node, path, "t", 1) is ErrorCode.NONE
    assert [node.replica("t", index).opened().path for index in (0, 1)] == [f"{path}/t-0", f"{path}/t-1"]


def test_the_cleaner_waits_for_the_end_of_a_move() -> None:
    node = two_disks(None, **{THROTTLE: "1"})
    node.create_topic(
        "t", 1, cleanup_policy="compact", segment_bytes="1048576", min_cleanable_dirty_ratio="0.01"
    )
    for number in range(30):
        assert produce(node, large(number)) == 0
    log = node.replica("t").opened()
    alter(node, other(node.replica("t").directory))
    settle(node)
    size = log.size
    settle(node, 60_000)
    assert log.size == size
    assert node.replica("t").opened() is log
    node.broker.static_settings = node.broker.settings = two_disks().broker.settings
    settle(node, 60_000)
    assert node.replica("t").opened() is not log
    assert node.replica("t").opened().size < size
    assert values(node)[-1] == large(29)
