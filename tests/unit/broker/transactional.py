"""A transactional producer in frames, as a client of either version of the protocol would drive it."""

from everlog.broker.coordinators import Coordinators
from everlog.coordinator.machine import ProducerStamp
from everlog.model.errors import ErrorCode
from everlog.records.batch import whole_batches
from everlog.records.builder import NewRecord, build_batch
from everlog.records.reader import read_records
from everlog.sim.disk import SimFiles
from everlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from everlog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from everlog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from everlog.wire.messages.fetch import FetchResponse
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from everlog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from everlog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.unit.broker.simulated import Client, SimulatedNode, a_fetch

NONE = ErrorCode.NONE
SMALL = {
    "transaction_state_log_num_partitions": "1",
    "offsets_topic_num_partitions": "1",
}
"""Internal topics of one partition: all that a test of one broker needs."""
V1, V2 = 1, 2


def a_node(
    *,
    topics: tuple[str, ...] = ("orders",),
    partitions: int = 2,
    files: SimFiles | None = None,
    **settings: str,
) -> SimulatedNode:
    """A node with topics, and with internal ones."""
    node = SimulatedNode(files, **{**SMALL, **settings})
    for topic in topics:
        node.create_topic(topic, partitions)
    make_internal(node)
    return node


def make_internal(node: SimulatedNode) -> Coordinators:
    """Have the internal topics made, as the first FindCoordinator would."""
    coordinators = node.broker.coordinators
    for shards in (coordinators.txns, coordinators.groups):
        coordinators.internal_topics.ensure(shards.topic, lambda refusal: _none(refusal))
    node.aside.run_all()
    return coordinators


def _none(refusal: object) -> None:
    assert refusal is None, refusal


class TxnProducer:
    """A producer with a transactional id. Each call is one request, and returns the code of its answer."""

    def __init__(self, node: SimulatedNode, name: str = "t", version: int = V2, group: str = "g") -> None:
        self.node = node
        self.client: Client = node.client()
        self.name = name
        self.version = version
        self.group = group
        self.stamp = ProducerStamp(-1, -1)
        self.sequences: dict[tuple[str, int], int] = {}

    def reconnect(self, node: SimulatedNode) -> None:
        """Go on with a node that was started again."""
        self.node = node
        self.client = node.client()

    def init(
        self,
        *,
        version: int = 5,
        timeout_ms: int = 60_000,
        expected: ProducerStamp | None = None,
        two_phase: bool = False,
        keep: bool = False,
    ) -> InitProducerIdResponse:
        """Ask for the id until it is given, or refused for good."""
        stamp = expected or ProducerStamp(-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=timeout_ms,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.epoch,
            enable2_pc=two_phase,
            keep_prepared_txn=keep,
        )
        answer = self.client.call(request, version, InitProducerIdResponse)
        if answer.error_code in (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ):
            self.node.pass_time(10)
            answer = self.client.call(request, version, InitProducerIdResponse)
        if answer.error_code == NONE:
            self.stamp = ProducerStamp(answer.producer_id, answer.producer_epoch)
            self.sequences.clear()
        return answer

    def add(self, *partitions: int, topic: str = "orders", version: int = 3) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.stamp.producer_id,
            v3_and_below_producer_epoch=self.stamp.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions or (0,)))],
        )
        answer = self.client.call(request, version, AddPartitionsToTxnResponse)
        codes = {
            one.partition_error_code
            for result in answer.results_by_topic_v3_and_below
            for one in result.results_by_partition
        }
        assert len(codes) == 1, codes
        return ErrorCode(codes.pop())

    def request(
        self,
        value: bytes,
        partition: int = 0,
        *,
        topic: str = "orders",
        stamp: ProducerStamp | None = None,
        sequence: int | None = None,
        transactional: bool = True,
    ) -> ProduceRequest:
        """A produce of one record."""
        stamp = stamp or self.stamp
        batch = build_batch(
            [NewRecord(b"k", value, (), self.node.clock.wall())],
            producer_id=stamp.producer_id,
            producer_epoch=stamp.epoch,
            base_sequence=self.sequences.get((topic, partition), 0) if sequence is None else sequence,
            transactional=transactional,
        )
        data = [PartitionProduceData(index=partition, records=bytes(batch))]
        return ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, partition_data=data)],
        )

    def send(
        self,
        value: bytes,
        partition: int = 0,
        *,
        topic: str = "orders",
        stamp: ProducerStamp | None = None,
        sequence: int | None = None,
        transactional: bool = True,
        version: int | None = None,
    ) -> ErrorCode:
        """Produce one record; in version 1 the partition has to be added before."""
        request = self.request(
            value, partition, topic=topic, stamp=stamp, sequence=sequence, transactional=transactional
        )
        api_version = version or (12 if self.version == V2 else 9)
        answer = only(self.client.call(request, api_version, ProduceResponse))
        if answer.error_code == NONE and sequence is None:
            key = (topic, partition)
            self.sequences[key] = self.sequences.get(key, 0) + 1
        return ErrorCode(answer.error_code)

    def write(self, value: bytes, partition: int = 0, *, topic: str = "orders") -> None:
        """Produce one record the way of the version, and be served."""
        if self.version == V1:
            assert self.add(partition, topic=topic) is NONE
        assert self.send(value, partition, topic=topic) is NONE

    def commit_offset(self, offset: int, *, partition: int = 0, version: int | None = None) -> ErrorCode:
        """Commit an offset of the group in the transaction."""
        if self.version == V1 and version is None:
            added = self.client.call(
                AddOffsetsToTxnRequest(
                    transactional_id=self.name,
                    producer_id=self.stamp.producer_id,
                    producer_epoch=self.stamp.epoch,
                    group_id=self.group,
                ),
                3,
                AddOffsetsToTxnResponse,
            )
            if added.error_code != NONE:
                return ErrorCode(added.error_code)
        one = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group,
            producer_id=self.stamp.producer_id,
            producer_epoch=self.stamp.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[one])],
        )
        answer = self.client.call(
            request, version or (5 if self.version == V2 else 3), TxnOffsetCommitResponse
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def end(
        self, *, commit: bool = True, stamp: ProducerStamp | None = None, version: int | None = None
    ) -> ErrorCode:
        """End the transaction, and go on with the epoch that the answer gives."""
        stamp = stamp or self.stamp
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.epoch,
            committed=commit,
        )
        api_version = version or (5 if self.version == V2 else 3)
        answer = self.client.call(request, api_version, EndTxnResponse)
        if answer.error_code == NONE and api_version >= 5:
            after = ProducerStamp(answer.producer_id, answer.producer_epoch)
            if after != self.stamp:
                self.sequences.clear()
            self.stamp = after
        return ErrorCode(answer.error_code)


def only(answer: ProduceResponse) -> PartitionProduceResponse:
    """What became of the one partition."""
    return answer.responses[0].partition_responses[0]


def committed(node: SimulatedNode, topic: str = "orders", partition: int = 0) -> list[bytes]:
    """What a reader of committed records gets from a partition, aborted ones dropped as clients do."""
    request = a_fetch(topic, *([0] * (partition + 1)), isolation_level=1)
    answer = node.client().call(request, 12, FetchResponse)
    data = answer.responses[0].partitions[partition]
    assert data.error_code == NONE, data
    aborted = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
    open_aborts: set[int] = set()
    found: list[bytes] = []
    for batch in whole_batches(data.records or b""):
        while aborted and aborted[0][0] <= batch.last_offset:
            open_aborts.add(aborted.pop(0)[1])
        if batch.is_control:
            open_aborts.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in open_aborts):
            found += [record.value or b"" for record in read_records(batch)]
    return found


def fetched_offset(
    node: SimulatedNode, group: str = "g", *, partition: int = 0, stable: bool = True
) -> tuple[ErrorCode, int]:
    """The group's committed offset, as a consumer that wants a stable one is answered."""
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[partition])],
            )
        ],
        require_stable=stable,
    )
    answer = node.client().call(request, 8, OffsetFetchResponse).groups[0]
    if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        node.pass_time(10)
        answer = node.client().call(request, 8, OffsetFetchResponse).groups[0]
    assert answer.error_code == NONE, answer
    one = answer.topics[0].partitions[0]
    return ErrorCode(one.error_code), one.committed_offset
