"""A partition whose sync has failed comes back by itself, with all that was acknowledged (L8, O5)."""

import errno

import pytest

from everlog.broker.housekeeping import DELETION_CHECK_MS
from everlog.model.errors import ErrorCode
from everlog.sim.chance import SimRandom
from everlog.sim.faults import Fault, Kind
from everlog.sim.platter import Loss
from everlog.wire.messages.fetch import FetchResponse
from everlog.wire.messages.produce import PartitionProduceResponse, ProduceResponse
from tests.unit.broker.simulated import SimulatedNode, a_batch, a_fetch, a_produce, records_of
from tests.unit.broker.test_replication import ask, three, told
from tests.unit.broker.test_replication import produce as produce_to
from tests.unit.broker.test_replication import values as values_at

LOG = "t-0/00000000000000000000.log"
AFTER_A_WHILE_MS = 3_000


def a_node() -> SimulatedNode:
    node = SimulatedNode(disk_reserve_bytes="0")
    node.create_topic("t", flush_messages="1")
    return node


def produce(
    node: SimulatedNode, *values: bytes, producer: tuple[int, int, int] | None = None
) -> PartitionProduceResponse:
    batch = a_batch(*values) if producer is None else a_batch(*values, producer=producer)
    answer = node.client().call(a_produce("t", (0, batch)), 9, ProduceResponse)
    return answer.responses[0].partition_responses[0]


def values(node: SimulatedNode) -> list[bytes | None]:
    answer = node.client().call(a_fetch("t", 0), 12, FetchResponse)
    return [record.value for record in records_of(answer.responses[0].partitions[0])]


def settle(node: SimulatedNode, ms: int = AFTER_A_WHILE_MS) -> None:
    for _ in range(ms // 100):
        node.pass_time(100)
        node.aside.run_all()


def after_power_loss(node: SimulatedNode) -> SimulatedNode:
    """The node as it starts after the power has failed, with all gone that was not synced."""
    return SimulatedNode(node.files.after_crash(SimRandom("power"), Loss.ALL))


def test_a_partition_whose_sync_failed_takes_records_again_without_a_restart() -> None:
    node = a_node()
    assert produce(node, b"synced").error_code == 0

    node.files.faults = [Fault(Kind.SYNC, errno.EIO, LOG, times=1)]
    assert produce(node, b"in doubt").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(node, b"too soon").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    settle(node)

    assert produce(node, b"after").error_code == 0
    assert values(node) == [b"synced", b"in doubt", b"after"]
    # What the kernel called clean after the failure was brought to disk all the same.
    assert values(after_power_loss(node)) == [b"synced", b"in doubt", b"after"]


def test_while_the_disk_refuses_nothing_is_acknowledged_and_reads_go_on() -> None:
    node = a_node()
    assert produce(node, b"synced").error_code == 0
    node.files.faults = [Fault(Kind.SYNC, errno.EIO, LOG)]
    assert produce(node, b"in doubt").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(3):
        settle(node, 60_000)
        assert produce(node, b"refused").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert values(node) == [b"synced", b"in doubt"]

    node.files.faults = []
    settle(node, 60_000)
    assert produce(node, b"after").error_code == 0
    assert values(after_power_loss(node)) == [b"synced", b"in doubt", b"after"]


def test_a_record_that_is_sent_again_after_a_failed_sync_is_there_once() -> None:
    node = a_node()
    node.files.faults = [Fault(Kind.SYNC, errno.EIO, LOG, times=1)]
    assert produce(node, b"a", producer=(7, 0, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    settle(node)

    again = produce(node, b"a", producer=(7, 0, 0))

    assert (again.error_code, again.base_offset) == (0, 0)
    assert values(after_power_loss(node)) == [b"a"]


def test_what_was_acknowledged_without_a_sync_outlives_one_that_failed() -> None:
    node = SimulatedNode(disk_reserve_bytes="0")
    node.create_topic("t", segment_bytes=str(1 << 20))
    sent = [b"%03d" % number * 100_000 for number in range(12)]
    for value in sent:
        assert produce(node, value).error_code == 0
    assert node.replica("t", 0).opened().segment_count > 3
    node.files.faults = [Fault(Kind.SYNC, errno.EIO, ".log", times=1)]
    settle(node, 61_000)
    assert not node.files.faults[0].times, "the checkpoint's sync was to fail"
    settle(node, 121_000)

    assert produce(node, b"after").error_code == 0
    read: list[bytes | None] = []
    while len(read) <= len(sent):
        answer = node.client().call(a_fetch("t", len(read)), 12, FetchResponse)
        read += [record.value for record in records_of(answer.responses[0].partitions[0])]
    assert read == [*sent, b"after"]
    settle(node, 121_000)
    lost = after_power_loss(node)
    assert lost.replica("t", 0).opened().end_offset == len(read)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_sync_that_lacks_room_for_the_epochs_is_tried_again(number: int) -> None:
    node = a_node()
    node.files.faults = [Fault(Kind.APPEND, number, "leader-epoch-checkpoint")]
    refused = produce(node, b"in doubt")
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert ErrorCode(refused.error_code).retriable
    assert node.replica("t", 0).opened().failure is None

    node.files.faults = []
    assert produce(node, b"at once").error_code == 0
    assert values(after_power_loss(node)) == [b"in doubt", b"at once"]


def test_a_disk_that_is_full_over_a_checkpoint_takes_records_once_there_is_room() -> None:
    node = a_node()
    assert produce(node, b"kept").error_code == 0
    node.files.quota_bytes = 0
    assert produce(node, b"refused").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    settle(node, 130_000)
    assert values(node) == [b"kept"]

    node.files.quota_bytes = None
    settle(node, DELETION_CHECK_MS)
    assert produce(node, b"after").error_code == 0
    assert values(after_power_loss(node)) == [b"kept", b"after"]


def test_what_the_disk_has_not_kept_is_given_up_and_what_was_synced_is_there() -> None:
    node = a_node()
    assert produce(node, b"synced").error_code == 0
    position = node.replica("t", 0).opened().size
    node.files.faults = [Fault(Kind.SYNC, errno.EIO, LOG, times=1)]
    assert produce(node, b"in doubt").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    node.files.flip_bit(f"/data/{LOG}", position + 70, 1)
    settle(node)

    after = produce(node, b"after")

    assert (after.error_code, after.base_offset) == (0, 1)
    assert values(node) == [b"synced", b"after"]
    assert values(after_power_loss(node)) == [b"synced", b"after"]


# --- with other replicas


def test_a_leader_whose_sync_failed_leads_on_once_its_disk_works() -> None:
    world = three(flush_messages="1")
    assert produce_to(world, world[1], b"synced").error_code == 0
    world[1].files.faults = [Fault(Kind.SYNC, errno.EIO, "orders-0", times=1)]
    assert produce_to(world, world[1], b"in doubt").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    world.run(AFTER_A_WHILE_MS)

    assert produce_to(world, world[1], b"after").error_code == 0
    assert [values_at(world[one]) for one in (1, 2, 3)] == [[b"synced", b"in doubt", b"after"]] * 3
    assert world.partition().leader == 1


def test_a_follower_counts_for_nothing_it_could_not_sync_and_is_back_once_its_disk_works() -> None:
    world = three(flush_messages="1")
    world[2].files.faults = [Fault(Kind.SYNC, errno.EIO, "orders-0")]
    client = world[1].client()
    ask(client, b"a")
    world.run(5_000)
    assert told(client).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert world[1].replica().high_watermark == 0, "one that is in sync does not have it durably"

    world[2].files.faults = []
    world.run(30_000)

    assert world[1].replica().high_watermark == 1
    assert world[2].replica().opened().recovery_point == 1
    assert produce_to(world, world[1], b"b").error_code == 0
    assert [values_at(world[one]) for one in (1, 2, 3)] == [[b"a", b"b"]] * 3


def test_another_leads_what_a_disk_goes_on_refusing() -> None:
    world = three(flush_messages="1")
    assert produce_to(world, world[1], b"a").error_code == 0
    world[1].files.faults = [Fault(Kind.SYNC, errno.EIO, "orders-0")]
    assert produce_to(world, world[1], b"b").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    world.run(5_000)

    assert world.partition().leader != 1
    assert 1 not in world.partition().isr
    leader = world[world.partition().leader]
    assert produce_to(world, leader, b"c").error_code == 0
    world[1].files.faults = []
    world.run(60_000)
    assert 1 in world.partition().isr
    assert values_at(world[1]) == values_at(leader)


def test_a_leader_that_has_not_kept_what_it_could_not_sync_gets_it_from_the_others() -> None:
    world = three(flush_messages="1")
    assert produce_to(world, world[1], b"a").error_code == 0
    position = world[1].replica().opened().size
    world[1].files.faults = [Fault(Kind.SYNC, errno.EIO, "orders-0", times=1)]
    assert produce_to(world, world[1], b"b").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    world[1].files.flip_bit("/data/orders-0/00000000000000000000.log", position + 65, 1)
    world.run(5_000)

    assert world.partition().leader != 1
    world.run(30_000)
    assert [values_at(world[one]) for one in (1, 2, 3)] == [[b"a", b"b"]] * 3
    assert produce_to(world, world[world.partition().leader], b"c").error_code == 0
