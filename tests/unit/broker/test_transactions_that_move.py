"""Transactions over several brokers: markers and questions to those who lead, coordinators that move (P5)."""

import pytest

from everlog.broker.coordinators import Coordinators
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.partitions import OFFSETS_TOPIC, TXN_TOPIC
from everlog.coordinator.txn.markers import MarkerOutcome, TxnMarker
from everlog.coordinator.txn.states import TxnState
from everlog.metadata.image import TopicImage
from everlog.model.errors import ErrorCode
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from everlog.wire.apis import ApiKey
from everlog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.produce import ProduceResponse
from everlog.wire.messages.remove_topic_record import RemoveTopicRecord
from everlog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from everlog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.unit.broker.group_calls import a_commit, commit
from tests.unit.broker.joined import Hop, JoinedCluster
from tests.unit.broker.transactional import V1, V2, TxnProducer, committed, fetched_offset, only

NONE = ErrorCode.NONE
BOTH = pytest.mark.parametrize("version", [V1, V2])


class Producer(TxnProducer):
    """A producer that knows who coordinates and who leads."""

    def __init__(self, cluster: JoinedCluster, version: int = V2) -> None:
        super().__init__(cluster[cluster.partition(TXN_TOPIC).leader], version=version)
        self.cluster = cluster

    def to_coordinator(self) -> "Producer":
        self.reconnect(self.cluster[self.cluster.partition(TXN_TOPIC).leader])
        return self

    def to_leader(self, partition: int) -> "Producer":
        self.reconnect(self.cluster[self.cluster.partition("orders", partition).leader])
        return self

    def to_groups(self) -> "Producer":
        self.reconnect(self.cluster[self.cluster.partition(OFFSETS_TOPIC).leader])
        return self

    def written(self, value: bytes, partition: int) -> ErrorCode:
        """Produce one record the way of the version."""
        if self.version == V1:
            assert self.to_coordinator().add(partition) is NONE
        return self.to_leader(partition).send(value, partition)

    def offset_committed(self, offset: int) -> ErrorCode:
        """Commit an offset of the group the way of the version."""
        return self.to_groups().commit_offset(offset, version=5 if self.version == V2 else 3)

    def ended(self, *, commit: bool = True) -> ErrorCode:
        return self.to_coordinator().end(commit=commit)


def a_cluster(**settings: str) -> JoinedCluster:
    """Three brokers: the first coordinates transactions, the second groups; each leads a partition."""
    cluster = JoinedCluster(settings)
    cluster.create_topic("orders", 1, 2, 3)
    coordinators: Coordinators = cluster[1].broker.coordinators
    for topic, leader in ((TXN_TOPIC, 1), (OFFSETS_TOPIC, 2)):
        coordinators.internal_topics.ensure(topic, _expect_none)
        cluster.settle()
        cluster.move(topic, leader)
    cluster.settle()
    return cluster


def _expect_none(refusal: object) -> None:
    assert refusal is None, refusal


def a_producer(cluster: JoinedCluster, version: int = V2) -> Producer:
    producer = Producer(cluster, version)
    assert producer.init().error_code == NONE
    return producer


def state(cluster: JoinedCluster, broker: int, name: str = "t") -> TxnState:
    found = cluster[broker].broker.coordinators.txn_shard(name).get(name)
    assert found is not None
    return found.state


def seen(cluster: JoinedCluster, partition: int) -> list[bytes]:
    return committed(cluster[cluster.partition("orders", partition).leader], partition=partition)


# --- what other brokers have to do


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_in_partitions_of_all_brokers(version: int, commit: bool) -> None:
    cluster = a_cluster()
    producer = a_producer(cluster, version)
    for partition in range(3):
        assert producer.written(b"a", partition) is NONE
    assert [seen(cluster, partition) for partition in range(3)] == [[], [], []]

    assert producer.ended(commit=commit) is NONE

    assert [seen(cluster, partition) for partition in range(3)] == [[b"a"] * commit] * 3
    assert state(cluster, 1) is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT)


@BOTH
def test_transactions_follow_each_other(version: int) -> None:
    cluster = a_cluster()
    producer = a_producer(cluster, version)

    for at in range(5):
        for partition in range(3):
            assert producer.written(b"%d" % at, partition) is NONE
        assert producer.ended(commit=at % 2 == 0) is NONE

    assert [seen(cluster, partition) for partition in range(3)] == [[b"0", b"2", b"4"]] * 3


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_when_the_groups_coordinator_has_the_marker(version: int, commit: bool) -> None:
    cluster = a_cluster()
    producer = a_producer(cluster, version)
    if version == V1:
        producer.to_coordinator()
        added = producer.commit_offset(0)  # Adds the group's partition, and asks the wrong broker to commit.
        assert added is ErrorCode.NOT_COORDINATOR
    assert producer.offset_committed(7) is NONE
    assert fetched_offset(cluster[2]) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)

    assert producer.ended(commit=commit) is NONE

    assert fetched_offset(cluster[2]) == (NONE, 7 if commit else -1)
    cluster.move(OFFSETS_TOPIC, 3)
    cluster.settle()
    assert fetched_offset(cluster[3]) == (NONE, 7 if commit else -1)


def test_a_marker_is_answered_for_when_it_is_committed() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    assert producer.written(b"a", 1) is NONE
    cluster.standing = {1, 3}

    # The decision is the coordinator's own record, which its followers have to copy.
    cluster.holds = lambda hop: hop.target == 2 and not hop.is_answer
    client = cluster[1].client()
    client.ask(an_end(producer), 5)
    cluster.standing = set()
    cluster.settle()
    assert client.take(EndTxnResponse).error_code == NONE
    cluster.standing = {1, 3}
    cluster.release()
    assert cluster[2].replica("orders", 1).opened().end_offset == 2, "record and marker are written"
    assert state(cluster, 1) is TxnState.PREPARE_COMMIT
    assert seen(cluster, 1) == []

    cluster.standing = set()
    cluster.settle()
    assert state(cluster, 1) is TxnState.COMPLETE_COMMIT
    assert seen(cluster, 1) == [b"a"]


def an_end(producer: TxnProducer, *, commit: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=producer.name,
        producer_id=producer.stamp.producer_id,
        producer_epoch=producer.stamp.epoch,
        committed=commit,
    )


def test_a_partition_without_a_leader_holds_up_no_other_and_gets_its_marker_later() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    for partition in range(3):
        assert producer.written(b"a", partition) is NONE
    cluster.move("orders", -1, 1)

    assert producer.ended() is NONE

    assert [seen(cluster, partition) for partition in (0, 2)] == [[b"a"], [b"a"]]
    assert state(cluster, 1) is TxnState.PREPARE_COMMIT
    cluster.move("orders", 3, 1)
    cluster.settle()
    assert seen(cluster, 1) == [b"a"]
    assert state(cluster, 1) is TxnState.COMPLETE_COMMIT


def test_a_topic_that_is_deleted_needs_no_marker() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    assert producer.written(b"a", 1) is NONE
    cluster.holds = lambda hop: hop.target == 2
    client = cluster[1].client()
    client.ask(an_end(producer), 5)
    cluster.settle()
    assert client.take(EndTxnResponse).error_code == NONE
    assert state(cluster, 1) is TxnState.PREPARE_COMMIT

    orders: TopicImage = cluster.image.topics["orders"]
    cluster.write(RemoveTopicRecord(topic_id=orders.id))
    cluster.settle()

    assert state(cluster, 1) is TxnState.COMPLETE_COMMIT


def test_a_marker_goes_to_the_new_leader_at_once_when_the_one_that_was_asked_is_silent() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    assert producer.written(b"a", 1) is NONE
    cluster.holds = lambda hop: hop.target == 2
    client = cluster[1].client()
    client.ask(an_end(producer), 5)
    cluster.settle()

    cluster.move("orders", 3, 1)
    cluster.settle()

    assert seen(cluster, 1) == [b"a"]
    assert state(cluster, 1) is TxnState.COMPLETE_COMMIT
    cluster.release()
    assert seen(cluster, 1) == [b"a"]


def test_a_marker_goes_to_the_new_leader_when_the_one_that_was_asked_has_died() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    assert producer.written(b"a", 1) is NONE
    cluster.kill(2)
    client = cluster[1].client()
    client.ask(an_end(producer), 5)
    cluster.settle()
    cluster.fence(2)
    cluster.move(TXN_TOPIC, 1, isr=[1, 3])
    cluster.move("orders", 3, 1, isr=[1, 3])
    cluster.settle()
    # The coordinator's own partition moved to a new epoch before the answer: the client asks again.
    assert client.take(EndTxnResponse).error_code == ErrorCode.NOT_COORDINATOR

    cluster.pass_time(2_000)
    assert seen(cluster, 1) == [b"a"]
    assert state(cluster, 1) is TxnState.COMPLETE_COMMIT


def test_a_marker_whose_answer_is_lost_with_its_broker_is_sent_again() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    assert producer.written(b"a", 1) is NONE
    cluster.holds = lambda hop: hop.key == ApiKey.WRITE_TXN_MARKERS
    client = cluster[1].client()
    client.ask(an_end(producer), 5)
    cluster.settle()
    assert client.take(EndTxnResponse).error_code == NONE

    cluster.kill(2)
    cluster.holds = lambda _hop: False
    cluster.pass_time(10)
    assert state(cluster, 1) is TxnState.PREPARE_COMMIT
    cluster.move("orders", 3, 1, isr=[1, 3])
    cluster.move(TXN_TOPIC, 1, isr=[1, 3])

    assert seen(cluster, 1) == [b"a"]
    assert state(cluster, 1) is TxnState.COMPLETE_COMMIT


# --- coordinators that move


@BOTH
def test_the_next_coordinator_goes_on_from_what_was_decided(version: int) -> None:
    cluster = a_cluster()
    producer = a_producer(cluster, version)
    for partition in range(3):
        assert producer.written(b"a", partition) is NONE
    cluster.holds = lambda hop: hop.origin == 1 and not hop.is_answer
    client = cluster[1].client()
    client.ask(an_end(producer), 5 if version == V2 else 3)
    cluster.settle()
    assert client.take(EndTxnResponse).error_code == NONE
    assert seen(cluster, 1) == []

    cluster.kill(1)
    cluster.move("orders", 2, 0, isr=[2, 3])
    cluster.move("orders", 2, 1, isr=[2, 3])
    cluster.move("orders", 3, 2, isr=[2, 3])
    cluster.move(TXN_TOPIC, 3, isr=[2, 3])
    cluster.settle()

    assert [seen(cluster, partition) for partition in range(3)] == [[b"a"]] * 3
    assert state(cluster, 3) is TxnState.COMPLETE_COMMIT


def test_a_decision_that_was_not_committed_is_not_carried_out_by_anybody() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    assert producer.written(b"a", 1) is NONE
    cluster.standing = {2, 3}
    client = cluster[1].client()
    client.ask(an_end(producer), 5)
    cluster.settle()
    assert seen(cluster, 1) == []

    cluster.move(TXN_TOPIC, 2, isr=[2, 3])
    cluster.standing = set()
    cluster.settle()

    assert client.take(EndTxnResponse).error_code == ErrorCode.NOT_COORDINATOR
    assert state(cluster, 2) is TxnState.ONGOING
    assert producer.ended() is NONE
    assert seen(cluster, 1) == [b"a"]


def test_an_ongoing_transaction_goes_on_with_the_next_coordinator() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    assert producer.written(b"a", 0) is NONE

    cluster.move(TXN_TOPIC, 2)
    cluster.settle()

    assert producer.written(b"b", 1) is NONE
    assert producer.ended() is NONE
    assert [seen(cluster, partition) for partition in (0, 1)] == [[b"a"], [b"b"]]


def test_markers_of_a_coordinator_that_has_a_successor_are_refused() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster, V1)
    assert producer.written(b"a", 1) is NONE
    zombie = cluster[1].broker.coordinators
    old_epoch = cluster.partition(TXN_TOPIC).leader_epoch
    cluster.move(TXN_TOPIC, 2)
    cluster.settle()
    assert producer.ended() is NONE
    assert producer.written(b"b", 1) is NONE
    outcomes: list[MarkerOutcome] = []

    marker = TxnMarker(producer.stamp, False, old_epoch, V1)
    partition = TopicPartition("orders", 1)
    zombie.markers.write_all(marker, frozenset({partition}), outcomes.append)
    cluster.settle()

    assert outcomes == [MarkerOutcome(frozenset(), fenced=True)]
    assert producer.ended() is NONE
    assert seen(cluster, 1) == [b"a", b"b"], "the zombie's abort has ended nothing"


def test_a_marker_written_while_the_next_coordinator_reads_its_log_counts() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    assert producer.offset_committed(7) is NONE
    # The third broker has not copied all: the new coordinator has to wait for it.
    cluster.standing = {1, 3}
    client = cluster[2].client()
    client.ask(a_commit("g", "orders", (1, 3)), 9)
    cluster.settle()
    cluster.standing = {3}
    cluster.settle()
    cluster.move(OFFSETS_TOPIC, 1)
    cluster.settle()

    marker = a_wire_marker(producer.stamp._replace(epoch=producer.stamp.epoch + 1))
    client = cluster[1].client()
    client.ask(marker, 2)
    cluster.settle()
    assert client.frames == []
    cluster.standing = set()
    cluster.settle()

    answer = client.take(WriteTxnMarkersResponse)
    assert answer.markers[0].topics[0].partitions[0].error_code == NONE
    assert fetched_offset(cluster[1]) == (NONE, 7)


def test_a_marker_committed_before_the_next_coordinator_has_read_its_log_counts() -> None:
    cluster = a_cluster(offsets_load_buffer_size="1")
    producer = a_producer(cluster)
    for offset in range(40):
        assert commit(cluster[2], a_commit("g", "orders", (1, offset))) == [NONE]
    assert producer.offset_committed(7) is NONE
    # What the only one in sync has is committed at once, and a log is read so many batches at a time.
    cluster.write(cluster.a_move(OFFSETS_TOPIC, 1, isr=[1]))
    groups = cluster[1].broker.coordinators.groups
    assert groups.load_some(), "it is not read in one go"

    marker = a_wire_marker(producer.stamp._replace(epoch=producer.stamp.epoch + 1))
    answers = cluster[1].client()
    answers.ask(marker, 2)
    answer = answers.take(WriteTxnMarkersResponse)
    assert answer.markers[0].topics[0].partitions[0].error_code == NONE
    assert groups.unready is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.settle()

    assert fetched_offset(cluster[1]) == (NONE, 7)


def test_a_marker_that_was_read_with_the_log_does_not_end_what_came_after_it() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    assert producer.offset_committed(7) is NONE
    cluster.move(OFFSETS_TOPIC, 1)
    groups = cluster[1].broker.coordinators.groups

    groups.end_transaction(0, producer.stamp, commit=True, offset=Offset(0))

    assert fetched_offset(cluster[1]) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)


def a_wire_marker(
    stamp: ProducerStamp, *, topic: str = OFFSETS_TOPIC, partitions: tuple[int, ...] = (0,)
) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=stamp.producer_id,
                producer_epoch=stamp.epoch,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions))],
                coordinator_epoch=5,
                transaction_version=2,
            )
        ]
    )


def test_markers_are_answered_for_one_by_one() -> None:
    cluster = a_cluster()
    cluster.create_topic("lonely", 1, 2, replicas=1)
    refusals = {1: ErrorCode.NOT_LEADER_OR_FOLLOWER, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    for topic in ("orders", "lonely"):
        request = a_wire_marker(ProducerStamp(77, 1), topic=topic, partitions=(0, 1, 9))
        answer = cluster[1].ask(request, 2, WriteTxnMarkersResponse)
        found = {one.partition_index: one.error_code for one in answer.markers[0].topics[0].partitions}
        assert found == {0: NONE, **refusals}


# --- questions to coordinators elsewhere


def test_a_partition_that_was_not_added_is_refused_by_its_leader() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster, V1)
    assert producer.to_coordinator().add(0) is NONE

    assert producer.to_leader(1).send(b"late", 1) is ErrorCode.INVALID_TXN_STATE

    assert cluster[2].replica("orders", 1).opened().end_offset == 0


def test_a_fenced_producer_is_told_by_the_leader() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    old = producer.stamp
    assert producer.to_coordinator().init().error_code == NONE
    producer.stamp = old

    assert producer.to_leader(1).send(b"late", 1) is ErrorCode.INVALID_PRODUCER_EPOCH


@BOTH
def test_a_coordinator_that_cannot_be_asked_lets_the_producer_try_again(version: int) -> None:
    cluster = a_cluster()
    producer = a_producer(cluster, version)
    if version == V1:
        assert producer.to_coordinator().add(1) is NONE
    cluster.kill(1)
    cluster.move("orders", 2, 1, isr=[2, 3])

    assert producer.to_leader(1).send(b"a", 1) is ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.move(TXN_TOPIC, -1, isr=[2, 3])
    assert producer.to_leader(1).send(b"a", 1) is ErrorCode.NOT_ENOUGH_REPLICAS

    cluster.move(TXN_TOPIC, 3, isr=[2, 3])
    cluster.settle()
    assert producer.to_leader(1).send(b"a", 1) is NONE


def test_a_coordinator_that_moved_away_meanwhile_lets_the_producer_try_again() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    cluster.fall_behind(2)
    cluster.move(TXN_TOPIC, 3)
    cluster.settle()

    assert producer.to_leader(1).send(b"a", 1) is ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.catch_up(2)
    assert producer.to_leader(1).send(b"a", 1) is NONE


def test_a_produce_right_behind_the_end_waits_for_the_markers_at_another_broker() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    assert producer.written(b"a", 2) is NONE
    cluster.holds = lambda hop: hop.target == 3 and not hop.is_answer and hop.origin == 1
    client = cluster[1].client()
    client.ask(an_end(producer), 5)
    cluster.settle()
    ended = client.take(EndTxnResponse)
    producer.stamp = ProducerStamp(ended.producer_id, ended.producer_epoch)
    producer.sequences.clear()
    writer = cluster[2].client()

    writer.ask(producer.request(b"b", 1), 12)
    cluster.settle()
    cluster.pass_time(30)
    assert writer.frames == []
    cluster.release()
    cluster.pass_time(30)

    assert only(writer.take(ProduceResponse)).error_code == NONE
    assert producer.ended() is NONE
    assert seen(cluster, 1) == [b"b"]


def test_a_transaction_that_is_not_over_in_time_is_told_to_be_concurrent() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster)
    assert producer.written(b"a", 2) is NONE
    cluster.holds = lambda hop: hop.target == 3 and not hop.is_answer and hop.origin == 1
    client = cluster[1].client()
    client.ask(an_end(producer), 5)
    cluster.settle()
    ended = client.take(EndTxnResponse)
    producer.stamp = ProducerStamp(ended.producer_id, ended.producer_epoch)
    producer.sequences.clear()
    writer = cluster[2].client()

    writer.ask(producer.request(b"b", 1), 12)
    cluster.pass_time(200)

    assert only(writer.take(ProduceResponse)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_yes_that_a_marker_has_overtaken_lets_no_offset_in() -> None:
    cluster = a_cluster()
    producer = a_producer(cluster, V1)
    producer.to_coordinator()
    assert producer.commit_offset(0) is ErrorCode.NOT_COORDINATOR  # Its partition is added now.

    def holds(hop: Hop) -> bool:
        return (hop.origin, hop.target, hop.is_answer) == (1, 2, True)

    cluster.holds = holds
    groups = cluster[2].client()
    groups.ask(a_txn_commit(producer), 3)
    cluster.settle()
    assert groups.frames == [], "the coordinator's yes is on its way"
    assert producer.ended(commit=False) is NONE
    assert state(cluster, 1) is TxnState.COMPLETE_ABORT

    cluster.release()

    answer = groups.take(TxnOffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TXN_STATE
    assert fetched_offset(cluster[2]) == (NONE, -1), "nothing is pending that nobody would end"


def a_txn_commit(producer: TxnProducer) -> TxnOffsetCommitRequest:
    one = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    return TxnOffsetCommitRequest(
        transactional_id=producer.name,
        group_id=producer.group,
        producer_id=producer.stamp.producer_id,
        producer_epoch=producer.stamp.epoch,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[one])],
    )


# --- producer ids


def test_every_broker_has_producer_ids_of_its_own() -> None:
    cluster = a_cluster()
    request = InitProducerIdRequest(transactional_id=None)

    found = [
        cluster[number].ask(request, 4, InitProducerIdResponse) for number in (1, 2, 3) for _ in range(2)
    ]

    assert {one.error_code for one in found} == {NONE}
    ids = [one.producer_id for one in found]
    assert len(set(ids)) == 6
    assert {one // 1000 for one in ids} == {0, 1, 2}
