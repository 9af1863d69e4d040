"""Partitions with several replicas, in brokers that talk to each other in frames (R1-R7)."""

import pytest

from everlog.log.partition import Origin
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Offset
from everlog.records.batch import batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.control import ControlType, Producer, build_marker
from everlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from everlog.wire.messages.fetch import FetchResponse, PartitionData
from everlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from everlog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from everlog.wire.messages.produce import PartitionProduceResponse, ProduceResponse
from tests.unit.broker.several import Host, SeveralBrokers
from tests.unit.broker.simulated import Client, a_batch, a_fetch, a_produce, records_of


def three(**configs: str) -> SeveralBrokers:
    """Three brokers with the topic `orders` on all, led by broker 1, at least two to be in sync."""
    world = SeveralBrokers()
    world.create_topic("orders", (1, 2, 3), min_insync_replicas="2", **configs)
    world.run(10)
    return world


def ask(client: Client, *values: bytes, acks: int = -1) -> None:
    """Send a batch, and do not wait for what becomes of it."""
    client.ask(a_produce("orders", (0, a_batch(*values)), acks=acks), 11)


def told(client: Client) -> PartitionProduceResponse:
    return client.take(ProduceResponse).responses[0].partition_responses[0]


def produce(world: SeveralBrokers, host: Host, *values: bytes, acks: int = -1) -> PartitionProduceResponse:
    client = host.client()
    ask(client, *values, acks=acks)
    world.run(100)
    return told(client)


def read(host: Host, offset: int = 0, **options: int) -> PartitionData:
    client = host.client()
    client.ask(a_fetch("orders", offset, **options), 12)  # type: ignore[arg-type]  # only ints are given here
    return client.take(FetchResponse).responses[0].partitions[0]


def values(host: Host) -> list[bytes | None]:
    """All that a broker has, whether it is committed or not."""
    log = host.replica().opened()
    found = log.read(log.start_offset, 1 << 20, log.end_offset)
    if found is None:
        return []
    return [record.value for record in records_of(PartitionData(records=found.read()))]


def test_what_is_acknowledged_is_on_all_that_are_in_sync() -> None:
    world = three()

    answer = produce(world, world[1], b"a", b"b")

    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert [values(world[one]) for one in (1, 2, 3)] == [[b"a", b"b"]] * 3
    world.run(100)
    assert [world[one].replica().high_watermark for one in (1, 2, 3)] == [2, 2, 2]


def test_acks_all_waits_for_the_followers_and_acks_1_does_not() -> None:
    world = three()
    world.cut(3)
    waits, quick = world[1].client(), world[1].client()
    ask(waits, b"a")
    ask(quick, b"b", acks=1)

    world.run(100)

    assert told(quick).error_code == 0
    assert not waits.frames
    world.cuts.clear()
    world.run(1000)
    assert told(waits).error_code == 0


def test_a_producer_hears_when_its_time_is_up() -> None:
    world = three()
    world.cut(3)
    client = world[1].client()
    ask(client, b"a")

    world.run(999)
    assert not client.frames
    world.run(1)

    assert told(client).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_too_few_in_sync_refuse_a_write_before_it_is_made() -> None:
    world = three()
    world.change(isr=(1,))

    refused = produce(world, world[1], b"a")
    taken = produce(world, world[1], b"b", acks=1)

    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (taken.error_code, taken.base_offset) == (0, 0)


def test_who_waits_hears_that_too_few_are_left_in_sync() -> None:
    world = three()
    world.cut(2)
    world.cut(3)
    client = world[1].client()
    ask(client, b"a")
    world.run(10)
    assert not client.frames

    world.change(isr=(1,))

    assert told(client).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_consumers_see_what_is_committed() -> None:
    world = three()
    produce(world, world[1], b"a")
    world.cut(3)
    produce(world, world[1], b"b", acks=1)

    found = read(world[1])

    assert [record.value for record in records_of(found)] == [b"a"]
    assert found.high_watermark == 1
    assert read(world[1], 1).error_code == 0
    assert read(world[1], 2).error_code == 0
    assert read(world[1], 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_consumer_that_waits_is_answered_when_records_are_committed() -> None:
    world = three()
    consumer = world[1].client()
    consumer.ask(a_fetch("orders", 0, max_wait_ms=10_000), 12)
    world.cut(3)
    ask(world[1].client(), b"a")
    world.run(10)
    assert not consumer.frames

    world.cuts.clear()
    world.run(1000)

    answer = consumer.take(FetchResponse).responses[0].partitions[0]
    assert [record.value for record in records_of(answer)] == [b"a"]


def test_a_consumer_that_waits_for_many_bytes_is_not_answered_for_few() -> None:
    world = three()
    consumer = world[1].client()
    consumer.ask(a_fetch("orders", 0, max_wait_ms=10_000, min_bytes=150), 12)

    produce(world, world[1], b"a")
    assert not consumer.frames
    produce(world, world[1], b"b" * 80)

    assert len(records_of(consumer.take(FetchResponse).responses[0].partitions[0])) == 2


def test_who_asks_a_follower_is_told_who_leads() -> None:
    world = three()
    client = world[2].client()
    ask(client, b"a")

    answer = client.take(ProduceResponse)

    found = answer.responses[0].partition_responses[0]
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (1, 0)
    assert [(one.node_id, one.host) for one in answer.node_endpoints] == [(1, "broker1.test")]


def test_a_new_leader_has_all_that_was_acknowledged() -> None:
    world = three()
    produce(world, world[1], b"a")
    world[1].stop(cleanly=False)

    world.change(leader=2, isr=(2, 3))
    answer = produce(world, world[2], b"b")

    assert (answer.error_code, answer.base_offset) == (0, 1)
    assert values(world[2]) == values(world[3]) == [b"a", b"b"]


def test_who_waits_hears_that_another_leads() -> None:
    world = three()
    world.cut(2)
    client = world[1].client()
    ask(client, b"a")
    world.run(10)

    world.change(leader=3, isr=(1, 2, 3))

    assert told(client).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_an_old_leader_has_too_much_is_cut_where_the_epochs_part() -> None:
    world = three()
    produce(world, world[1], b"a")
    world.cut(1)
    ask(world[1].client(), b"lost", acks=1)
    world.change(leader=2, isr=(2, 3), tell=(2, 3))
    produce(world, world[2], b"b")

    world.cuts.clear()
    world.tell(1)
    world.run(1000)

    assert [values(world[one]) for one in (1, 2, 3)] == [[b"a", b"b"]] * 3
    assert world[1].replica().opened().epochs.entries == [(0, 0), (1, 1)]


def test_a_log_that_parted_several_times_is_cut_in_several_steps() -> None:
    world = three()
    produce(world, world[1], b"a")
    for leader, other in ((1, 2), (2, 1), (1, 2), (2, 1)):
        world.cut(leader)
        world.change(leader=leader, tell=(leader,))
        ask(world[leader].client(), b"only on %d" % leader, acks=1)
        world.change(leader=leader, tell=())
        del other
    world.cuts.clear()
    world.change(leader=2, isr=(2, 3))
    world.run(2000)

    assert values(world[1]) == values(world[2]) == values(world[3])
    assert values(world[2]) == [b"a", b"only on 2", b"only on 2"]


@pytest.mark.parametrize("lost", [(), (b"lost",)])
def test_an_epoch_without_records_still_tells_where_the_one_before_ended(lost: tuple[bytes, ...]) -> None:
    world = SeveralBrokers()
    world.create_topic("orders", (3, 1, 2))
    produce(world, world[3], b"a")
    world.cut(3)
    ask(world[3].client(), b"b", acks=1)
    world.change(leader=1, isr=(3, 1, 2), tell=(1,))
    for value in lost:
        ask(world[1].client(), value, acks=1)
    world.cuts.clear()
    # Broker 3 has heard of no epoch but its own, and writes nothing in the one that begins now.
    world.change(leader=3)
    world.run(1000)

    assert [values(world[one]) for one in (1, 2, 3)] == [[b"a", b"b"]] * 3


@pytest.mark.parametrize("bit", [0, 6])
@pytest.mark.parametrize("missed", [(), (b"c",)])
def test_a_record_whose_epoch_was_raised_on_the_followers_disk_is_fetched_again(
    bit: int, missed: tuple[bytes, ...]
) -> None:
    world = three()
    produce(world, world[1], b"a")
    produce(world, world[1], b"b")
    world[3].stop(cleanly=False)
    path = "/data/orders-0/00000000000000000000.log"
    last_epoch_byte = len(world[3].files.read(path)) // 2 + 15
    world[3].files.flip_bit(path, last_epoch_byte, bit)
    # To an epoch that began behind the record, or one that there never was.
    world.change(leader=1, isr=(1, 2))
    for value in missed:
        produce(world, world[1], value)

    world[3].start(23)
    world.register(3, 23)
    world.run(1000)

    assert [values(world[one]) for one in (1, 2, 3)] == [[b"a", b"b", *missed]] * 3
    assert world.partition().isr == (1, 2, 3)
    log = world[3].replica().opened()
    assert log.last_epoch() == (1 if missed else 0)
    assert log.epochs.epoch_at(Offset(1)) == 0


def test_a_follower_that_lags_leaves_and_comes_back() -> None:
    world = three()
    leave_3_behind(world)
    assert produce(world, world[1], b"b").error_code == 0

    world.cuts.clear()
    world.run(1000)

    assert world.partition().isr == (1, 2, 3)
    assert values(world[3]) == [b"a", b"b"]


def test_followers_of_a_quiet_partition_stay_in_sync() -> None:
    world = three()
    produce(world, world[1], b"a")
    world.run(200_000)

    world.cut(1)
    ask(world[1].client(), b"b", acks=1)
    world.run(15_000)
    assert world.partition().isr == (1, 2, 3)
    world.run(30_000)

    assert world.partition().isr == (1,)


def leave_3_behind(world: SeveralBrokers) -> None:
    """Cut broker 3 off until it is out of sync."""
    world.cut(3)
    ask(world[1].client(), b"a", acks=1)
    world.run(40_000)
    assert world.partition().isr == (1, 2)


def test_a_proposal_counts_from_when_it_is_made() -> None:
    world = three()
    leave_3_behind(world)
    world.hold_proposals = True
    world.cuts.clear()
    world.run(1000)
    assert world.proposals
    world.cut(3)

    client = world[1].client()
    ask(client, b"b")
    world.run(500)

    assert not client.frames  # The controller may have taken broker 3 in already.
    assert world[1].replica().high_watermark == 1


def test_a_proposal_that_was_not_heard_is_made_again() -> None:
    world = three()
    leave_3_behind(world)
    world.hold_proposals = True
    world.cuts.clear()
    world.run(1000)

    _, _, done = world.proposals.pop()
    done(Refused(ErrorCode.REQUEST_TIMED_OUT, "nobody answers"))
    world.run(100)
    assert len(world.proposals) == 1

    world.hold_proposals = False
    world.run(100)

    assert world.partition().isr == (1, 2, 3)


def test_a_start_that_forgot_the_end_of_the_log_does_not_lead_on() -> None:
    world = three()
    produce(world, world[1], b"a")
    world[1].stop(cleanly=False)
    world[1].start(21)  # The metadata still says that broker 1 leads in this epoch.
    client = world[1].client()
    ask(client, b"b", acks=1)

    assert told(client).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.register(1, 21)
    world.change(leader=2, isr=(2, 3))
    world.run(1000)
    assert world.partition().isr == (1, 2, 3) or world.partition().isr == (2, 3, 1)


def test_a_fetch_of_a_brokers_earlier_life_does_not_bring_it_into_sync() -> None:
    world = three()
    leave_3_behind(world)
    world.hold_proposals = True
    world.cuts.clear()
    world.run(1000)

    assert [
        (one.broker_id, one.broker_epoch)
        for one in world.proposals[0][1].topics[0].partitions[0].new_isr_with_epochs
    ] == [(1, 11), (2, 12), (3, 13)]


def test_what_is_committed_is_known_again_after_a_clean_stop() -> None:
    world = three()
    produce(world, world[1], b"a")
    world.run(100)
    world[2].stop()
    world[2].start(22)
    world.register(2, 22)
    world.cut(2)

    assert world[2].replica().opened().end_offset == 1
    assert world[2].replica().high_watermark == 1


def test_high_watermarks_are_written_down_every_few_seconds() -> None:
    world = three()
    produce(world, world[1], b"a")
    world.run(6_000)

    assert world[2].files.read("/data/replication-offset-checkpoint") == b"0\n1\norders 0 1\n"


def test_a_follower_behind_the_leaders_start_begins_anew_there() -> None:
    world = three()
    leave_3_behind(world)
    for one in range(3):
        produce(world, world[1], b"%d" % one)
    world[1].replica().opened().move_start_to(Offset(3))

    world.cuts.clear()
    world.run(1000)

    log = world[3].replica().opened()
    assert (log.start_offset, log.end_offset) == (3, 4)
    assert world.partition().isr == (1, 2, 3)


def test_only_brokers_of_the_cluster_fetch_as_replicas() -> None:
    world = three()
    produce(world, world[1], b"a")

    found = read(world[1], replica_id=3)

    assert found.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("slow", [1, 2, 3])
def test_a_topic_that_asks_for_syncs_commits_what_all_in_sync_have_synced(slow: int) -> None:
    world = three(flush_messages="1")
    world.slow_disks = {slow}
    client = world[1].client()
    ask(client, b"a")

    world.run(100)

    assert [values(world[one]) for one in (1, 2, 3)] == [[b"a"]] * 3
    assert not client.frames
    world.slow_disks.clear()
    world.run(100)
    assert told(client).error_code == 0
    assert [host.replica().opened().recovery_point for host in world.hosts.values()] == [1, 1, 1]


def test_a_reader_hears_of_what_a_sync_has_committed_at_once() -> None:
    world = three(flush_messages="1")
    world.slow_disks = {1}
    reader = world[1].client()
    reader.ask(a_fetch("orders", 0, max_wait_ms=60_000), 11)
    ask(world[1].client(), b"a")
    world.run(100)
    assert not reader.frames

    world.slow_disks.clear()
    world.run(0)

    assert reader.frames


def test_an_answer_of_an_earlier_epoch_is_dropped() -> None:
    world = three()
    produce(world, world[1], b"a")
    line = world.line(3, 1)
    line.holds_answers = True
    ask(world[1].client(), b"of epoch 0", acks=1)
    world.run(10)
    # Broker 2 cuts what broker 1 has just sent, and leads; then broker 1 leads again with what is left.
    world.change(leader=2, isr=(1, 2, 3))
    world[1].replica().opened().truncate_to(Offset(1))
    world.change(leader=1, isr=(1, 2, 3))
    ask(world[1].client(), b"of epoch 2", acks=1)
    world.run(10)

    line.holds_answers = False
    line.step()
    assert values(world[3]) == [b"a"]
    world.run(1000)

    assert values(world[3]) == values(world[1]) == [b"a", b"of epoch 2"]


def test_a_follower_of_another_epoch_is_fenced() -> None:
    world = three()
    world.change(leader=1, tell=(1, 2))  # Broker 3 has not heard that there is a new epoch.
    client = world[1].client()
    ask(client, b"a")
    world.run(100)
    assert not client.frames
    assert values(world[3]) == []

    world.tell(3)
    world.run(100)

    assert told(client).error_code == 0


def test_a_new_leader_does_not_say_what_is_committed_before_it_knows() -> None:
    world = three()
    produce(world, world[1], b"a")
    world.cut(2)
    ask(world[1].client(), b"b", acks=1)
    world.run(10)
    world.cut(1)
    world.change(leader=3, isr=(2, 3), tell=(2, 3))
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ]
    )
    client = world[3].client()

    client.ask(request, 5)
    early = client.take(ListOffsetsResponse).topics[0].partitions[0]
    client.ask(request, 4)
    for_old_clients = client.take(ListOffsetsResponse).topics[0].partitions[0]
    world.cuts.clear()
    world.run(1000)
    client.ask(request, 5)
    then = client.take(ListOffsetsResponse).topics[0].partitions[0]

    assert early.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert for_old_clients.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (then.error_code, then.offset) == (0, 2)


def test_only_the_leader_says_where_offsets_and_epochs_are() -> None:
    world = three()
    client = world[2].client()
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-2)
    client.ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[wanted])]), 5)
    listed = client.take(ListOffsetsResponse).topics[0].partitions[0]
    epoch = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    client.ask(
        OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="orders", partitions=[epoch])]), 4
    )
    found = client.take(OffsetForLeaderEpochResponse).topics[0].partitions[0]

    assert listed.error_code == found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_nothing_is_committed_while_too_few_are_in_sync() -> None:
    world = three()
    world.cut(2)
    world.cut(3)
    world.change(isr=(1,))
    ask(world[1].client(), b"a", acks=1)
    world.run(100)

    assert world[1].replica().high_watermark == 0


def test_a_replica_that_moves_in_catches_up_and_joins() -> None:
    world = SeveralBrokers()
    world.create_topic("orders", (1,))
    for one in range(3):
        produce(world, world[1], b"%d" % one)
    assert world[1].replica().sole

    world.change(replicas=(1, 2), adding=(2,))
    world.run(1000)
    assert world.partition().isr == (1, 2)
    assert values(world[2]) == [b"0", b"1", b"2"]
    world.change(replicas=(2,), isr=(2,), leader=2)
    answer = produce(world, world[2], b"3")

    assert (answer.error_code, answer.base_offset) == (0, 3)
    assert world[2].replica().sole
    assert world[1].broker.replicas.get("orders", 0) is None


def test_a_follower_takes_in_transactions_as_its_leader_does() -> None:
    world = three()
    log = world[1].replica().opened()
    for producer, commit in ((7, True), (8, False)):
        raw = build_batch(
            [NewRecord(b"k", b"%d" % producer, (), 1)],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        append(world, raw)
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        append(world, build_marker(kind, Producer(producer, 0), coordinator_epoch=1, timestamp=1))
    append(
        world,
        build_batch(
            [NewRecord(b"k", b"open", (), 1)],
            producer_id=9,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        ),
    )
    world.run(100)

    theirs = world[2].replica().opened()
    assert theirs.aborted_between(Offset(0), Offset(9)) == log.aborted_between(Offset(0), Offset(9)) != []
    assert world[2].replica().last_stable_offset == world[1].replica().last_stable_offset == 4
    assert theirs.producers.first_unstable_offset == 4


def append(world: SeveralBrokers, raw: bytearray) -> None:
    """Append a batch on broker 1 as a coordinator does."""
    replica = world[1].replica()
    batch = batch_at(raw)
    replica.opened().append(batch, replica.leader_epoch, world.clock.wall(), Origin.COORDINATOR)
    world[1].broker.replication.appended(replica, batch.size)
    world[1].broker.settle()


def test_deleted_records_are_gone_once_all_that_are_alive_have_let_go_of_them() -> None:
    world = three()
    for one in range(3):
        produce(world, world[1], b"%d" % one)
    world.cut(3)
    client = world[1].client()
    request = DeleteRecordsRequest(
        timeout_ms=5_000,
        topics=[
            DeleteRecordsTopic(
                name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
            )
        ],
    )
    client.ask(request, 2)
    world.run(1_000)
    assert [world[one].replica().opened().start_offset for one in (1, 2, 3)] == [2, 2, 0]
    assert not client.frames

    world.cuts.clear()
    world.run(1_000)

    [found] = client.take(DeleteRecordsResponse).topics[0].partitions
    assert (found.error_code, found.low_watermark) == (0, 2)
    assert world[3].replica().opened().start_offset == 2


def test_who_waits_for_records_to_be_deleted_everywhere_waits_no_longer_than_it_said() -> None:
    world = three()
    produce(world, world[1], b"a")
    world.cut(3)
    client = world[1].client()
    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    client.ask(
        DeleteRecordsRequest(
            timeout_ms=500, topics=[DeleteRecordsTopic(name="orders", partitions=[partition])]
        ),
        2,
    )
    world.run(499)
    assert not client.frames
    world.run(1)

    [found] = client.take(DeleteRecordsResponse).topics[0].partitions
    assert found.error_code == ErrorCode.REQUEST_TIMED_OUT


def in_racks() -> SeveralBrokers:
    """Three brokers in racks of their own, that send consumers to the replica in theirs."""
    world = SeveralBrokers(replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector")
    for one in (1, 2, 3):
        world.register(one, 20 + one, rack=f"rack {one}")
    world.create_topic(min_insync_replicas="2")
    world.run(100)
    return world


def read_from_rack(host: Host, offset: int, rack: str) -> PartitionData:
    client = host.client()
    request = a_fetch("orders", offset)
    request.rack_id = rack
    client.ask(request, 12)
    return client.take(FetchResponse).responses[0].partitions[0]


def test_a_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    world = in_racks()
    produce(world, world[1], b"a")
    world.run(100)

    found = read_from_rack(world[1], 0, "rack 3")
    there = read_from_rack(world[3], 0, "rack 3")
    here = read_from_rack(world[1], 0, "rack 1")

    assert (found.preferred_read_replica, found.records or b"") == (3, b"")
    assert [record.value for record in records_of(there)] == [b"a"]
    assert here.preferred_read_replica == -1
    assert [record.value for record in records_of(here)] == [b"a"]
    assert read_from_rack(world[1], 0, "rack 4").preferred_read_replica == -1


def test_a_consumer_is_sent_to_nobody_who_lacks_what_it_wants() -> None:
    world = in_racks()
    world.cut(3)
    ask(world[1].client(), b"a", acks=1)
    world.run(100)

    assert read_from_rack(world[1], 1, "rack 3").preferred_read_replica == -1
    world.run(40_000)
    assert world.partition().isr == (1, 2)
    assert read_from_rack(world[1], 0, "rack 3").preferred_read_replica == -1


def test_a_follower_that_is_behind_says_not_yet() -> None:
    world = three()
    world.cut(3)
    ask(world[1].client(), b"a", acks=1)
    world.run(10)

    beyond = read(world[3], 1, leader_epoch=0)
    at_end = read(world[3], 0, leader_epoch=0)

    assert beyond.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert at_end.error_code == 0
    client = world[3].client()
    client.ask(a_fetch("orders", 0), 10)
    told_10 = client.take(FetchResponse).responses[0].partitions[0]
    assert told_10.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_shows_no_more_than_it_knows_as_committed() -> None:
    world = three()
    produce(world, world[1], b"a")
    world.run(100)
    world.cut(2)
    ask(world[1].client(), b"b", acks=1)
    world.run(10)

    assert world[3].replica().opened().end_offset == 2
    assert [record.value for record in records_of(read(world[3]))] == [b"a"]


def catching_up(**configs: str) -> SeveralBrokers:
    """Broker 3 has to copy forty batches of a kilobyte, at 10 kB/s if anybody is slowed down."""
    world = SeveralBrokers(
        leader_replication_throttled_rate="10000",
        follower_replication_throttled_rate="10000",
        replica_fetch_max_bytes="1",
    )
    world.create_topic("orders", (1, 2, 3), **configs)
    leave_3_behind(world)
    for _ in range(40):
        ask(world[1].client(), b"x" * 1000, acks=1)
    world.run(100)
    world.cuts.clear()
    world.run(1000)
    return world


def test_a_replica_that_catches_up_does_so_at_once_unless_it_is_slowed_down() -> None:
    assert catching_up().partition().isr == (1, 2, 3)


@pytest.mark.parametrize(
    "configs",
    [
        {"leader_replication_throttled_replicas": "0:1"},
        {"follower_replication_throttled_replicas": "0:3"},
        {"follower_replication_throttled_replicas": "*"},
    ],
)
def test_a_replica_that_is_slowed_down_takes_as_long_as_it_should(configs: dict[str, str]) -> None:
    world = catching_up(**configs)
    assert world.partition().isr == (1, 2)

    world.run(6000)

    assert world.partition().isr == (1, 2, 3)


def test_who_is_in_sync_is_not_slowed_down() -> None:
    world = SeveralBrokers(leader_replication_throttled_rate="1", follower_replication_throttled_rate="1")
    world.create_topic(
        "orders",
        (1, 2, 3),
        leader_replication_throttled_replicas="*",
        follower_replication_throttled_replicas="*",
    )
    world.run(10)

    for _ in range(3):
        assert produce(world, world[1], b"x" * 1000).error_code == 0
