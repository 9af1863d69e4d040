"""TxnOffsetCommit in all its versions: offsets in a producer's transaction (C6, P5)."""

import pytest

from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, Uuid
from everlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from everlog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.unit.broker.group_calls import fetch_one, find_coordinator
from tests.unit.broker.handlers.nodes import SimNode
from tests.unit.coordinator.group.groups import MadeUpGroup

ADDS_ITSELF, TOPIC_IDS = 5, 6


class Transaction:
    """One transactional producer on a node with the topic `orders`."""

    def __init__(self) -> None:
        self.node = SimNode()
        self.topic_id = self.node.create_topic("orders", 2)
        find_coordinator(self.node, "t", key_type=1)
        find_coordinator(self.node, "g")
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        answer = self.node.ask(request, 4, InitProducerIdResponse)
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def add_offsets(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id="t", producer_id=self.producer_id, producer_epoch=self.epoch, group_id="g"
        )
        assert self.node.ask(request, 3, AddOffsetsToTxnResponse).error_code == 0

    def commit(
        self,
        version: int,
        *offsets: tuple[int, int],
        topic: str = "orders",
        topic_id: Uuid = NO_UUID,
        member: tuple[str, int] = ("", -1),
        metadata: str | None = None,
        leader_epoch: int = -1,
    ) -> list[int]:
        """Commit offsets in the transaction, as this version does it."""
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                        for partition, offset in offsets
                    ],
                )
            ],
        )
        answer = self.node.ask(request, version, TxnOffsetCommitResponse)
        return [one.error_code for found in answer.topics for one in found.partitions]

    def end(self, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id="t", producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        assert self.node.ask(request, 3, EndTxnResponse).error_code == 0
        self.node.pass_time(10)
        self.node.aside.run_all()


@pytest.mark.parametrize("version", range(7))
def test_offsets_of_every_version_count_when_the_transaction_commits(version: int) -> None:
    txn = Transaction()
    if version < ADDS_ITSELF:
        txn.add_offsets()

    codes = txn.commit(version, (0, 5), (1, 6), topic_id=txn.topic_id, metadata="note", leader_epoch=3)

    assert codes == [0, 0]
    assert fetch_one(txn.node, "g", "orders", stable=True).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetch_one(txn.node, "g", "orders").committed_offset == -1
    txn.end(commit=True)
    found = fetch_one(txn.node, "g", "orders", 1, stable=True)
    assert (found.committed_offset, found.metadata, found.error_code) == (6, "note", 0)
    assert found.committed_leader_epoch == (3 if version >= 2 else -1)


@pytest.mark.parametrize("commit", [True, False])
def test_a_restart_in_the_middle_of_the_transaction_loses_nothing_of_it(commit: bool) -> None:
    txn = Transaction()
    txn.commit(ADDS_ITSELF, (0, 5))

    txn.node.start()
    txn.node.connect("PLAINTEXT")
    txn.node.pass_time(100)
    assert fetch_one(txn.node, "g", "orders", stable=True).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    txn.end(commit=commit)

    for _ in range(2):
        found = fetch_one(txn.node, "g", "orders", stable=True)
        assert (found.error_code, found.committed_offset) == (0, 5 if commit else -1)
        txn.node.start()
        txn.node.connect("PLAINTEXT")
        txn.node.pass_time(100)


@pytest.mark.parametrize("version", [3, 5])
def test_a_member_whose_generation_is_over_is_fenced(version: int) -> None:
    txn = Transaction()
    txn.add_offsets()
    group = MadeUpGroup("g", members=("m",))
    txn.node.broker.coordinators.group_shard("g").groups.put(group)

    assert txn.commit(version, (0, 5), member=("m", 1)) == [0]
    for code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
        group.refusal = Refused(code, "over")
        assert txn.commit(version, (0, 9), member=("m", 0)) == [code]
    group.refusal = None
    txn.end(commit=True)

    assert fetch_one(txn.node, "g", "orders").committed_offset == 5


def test_a_producer_of_an_old_epoch_is_fenced() -> None:
    txn = Transaction()
    txn.add_offsets()
    txn.epoch -= 1

    assert txn.commit(3, (0, 5)) == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_a_group_that_was_not_added_takes_no_offsets() -> None:
    txn = Transaction()

    assert txn.commit(3, (0, 5)) == [ErrorCode.INVALID_TXN_STATE]
    assert txn.commit(4, (0, 5)) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert fetch_one(txn.node, "g", "orders", stable=True).error_code == 0


def test_partitions_that_are_not_there_are_refused_alone() -> None:
    txn = Transaction()
    txn.add_offsets()

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert txn.commit(3, (0, 5), (2, 5)) == [0, unknown]
    assert txn.commit(3, (0, 5), topic="nothing") == [unknown]
    assert txn.commit(TOPIC_IDS, (0, 5), topic_id=Uuid(b"x" * 16)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert txn.commit(TOPIC_IDS, (7, 5), topic_id=txn.topic_id) == [unknown]
