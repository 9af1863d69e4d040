"""P5: what a transactional producer sends, and when it asks again, with a coordinator by script."""

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from everlog import aio
from everlog.client.core.errors import (
    Fenced,
    TimedOut,
    TransactionAborted,
    TransactionFailed,
    TransactionMisused,
)
from everlog.client.core.group.types import GroupMetadata
from everlog.client.sync.producer import Producer
from everlog.model.errors import ErrorCode, Refused
from everlog.records.batch import batch_at
from everlog.wire.apis import ApiKey
from everlog.wire.codec import RequestHeader
from everlog.wire.message import Message
from everlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from everlog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from everlog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from everlog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from everlog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from everlog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.unit.client.builders import ORDERS_ID
from tests.unit.client.sync.scripted import ScriptedBroker

C = ErrorCode
HANG_UP = None
PATIENCE_S = 60.0
PLACE = ("orders", 0)
OFFSETS = {PLACE: 5}
GROUP = GroupMetadata("kitchen")
NOT_NOTED = (ApiKey.METADATA, ApiKey.FIND_COORDINATOR)


class Cluster:
    """One broker that leads and coordinates; the next answers of an API can be told."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.port = 0
        self.producer_id, self.epoch = 7, -1
        self.steps: defaultdict[ApiKey, deque[ErrorCode | None]] = defaultdict(deque)
        """Codes of the next answers, or to hang up instead; after them all goes well."""
        self.log: list[tuple[str, int]] = []
        """What came, in words, with the version of the API."""
        self.lookups: list[tuple[int, str]] = []
        """Kind and key of what a coordinator was looked for."""
        self.hold: threading.Event | None = None
        """If set, the end of a transaction waits for it."""
        self.hold_produce: threading.Event | None = None
        """If set, batches wait for it."""

    @property
    def words(self) -> list[str]:
        return [words for words, _ in self.log]

    def __call__(self, header: RequestHeader, request: Message) -> Message | None:
        api = ApiKey(header.api_key)
        code: ErrorCode | None = C.NONE
        if api not in NOT_NOTED:
            self.log.append((self._in_words(request), header.api_version))
            code = self.steps[api].popleft() if self.steps[api] else C.NONE
        if code is None:
            return None
        return self._answer(request, code)

    def _in_words(self, request: Message) -> str:
        match request:
            case InitProducerIdRequest():
                return f"init {request.producer_id}/{request.producer_epoch}"
            case AddPartitionsToTxnRequest():
                return f"add partitions /{request.v3_and_below_producer_epoch}"
            case AddOffsetsToTxnRequest():
                return f"add {request.group_id} /{request.producer_epoch}"
            case TxnOffsetCommitRequest():
                return f"offsets /{request.producer_epoch}"
            case EndTxnRequest():
                return f"{'commit' if request.committed else 'abort'} /{request.producer_epoch}"
            case ProduceRequest():
                batch = batch_at(bytes(request.topic_data[0].partition_data[0].records or b""))
                assert batch.is_transactional
                return f"produce {batch.producer_id}/{batch.producer_epoch} from {batch.base_sequence}"
            case _:
                raise AssertionError(request)

    def _answer(self, request: Message, code: ErrorCode) -> Message:
        match request:
            case MetadataRequest():
                return self._metadata()
            case FindCoordinatorRequest():
                [key] = request.coordinator_keys
                self.lookups.append((request.key_type, key))
                found = Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.port)
                return FindCoordinatorResponse(coordinators=[found])
            case InitProducerIdRequest():
                self.epoch += code is C.NONE
                return InitProducerIdResponse(
                    error_code=code, producer_id=self.producer_id, producer_epoch=self.epoch
                )
            case AddPartitionsToTxnRequest():
                return self._added(request, code)
            case AddOffsetsToTxnRequest():
                return AddOffsetsToTxnResponse(error_code=code)
            case TxnOffsetCommitRequest():
                part = TxnOffsetCommitResponsePartition(error_code=code)
                topic = TxnOffsetCommitResponseTopic(name="orders", partitions=[part])
                return TxnOffsetCommitResponse(topics=[topic])
            case EndTxnRequest():
                return self._ended(code)
            case ProduceRequest():
                assert self.hold_produce is None or self.hold_produce.wait(PATIENCE_S)
                answer = PartitionProduceResponse(index=0, error_code=code, base_offset=0)
                named = TopicProduceResponse(name="orders", topic_id=ORDERS_ID, partition_responses=[answer])
                return ProduceResponse(responses=[named])
            case _:
                raise AssertionError(request)

    def _metadata(self) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=0)
        topic = MetadataResponseTopic(name="orders", topic_id=ORDERS_ID, partitions=[partition])
        broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)
        return MetadataResponse(brokers=[broker], topics=[topic], controller_id=1, cluster_id="c")

    def _added(self, request: AddPartitionsToTxnRequest, code: ErrorCode) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def _ended(self, code: ErrorCode) -> EndTxnResponse:
        if self.hold is not None:
            assert self.hold.wait(PATIENCE_S)
        if self.version == 1 or code is not C.NONE:
            return EndTxnResponse(error_code=code)
        self.epoch += 1
        return EndTxnResponse(producer_id=self.producer_id, producer_epoch=self.epoch)


@contextmanager
def producing(cluster: Cluster, **options: Any) -> Generator[Producer]:
    """A producer that has its id."""
    settings: dict[str, Any] = {"transactional_id": "till", "retry_backoff_ms": 5, "linger_ms": 0, **options}
    features = {"transaction.version": 2} if cluster.version == 2 else {}
    with ScriptedBroker(cluster, features=features) as broker:
        cluster.port = broker.port
        with Producer(f"127.0.0.1:{broker.port}", **settings) as producer:
            producer.init_transactions(PATIENCE_S)
            yield producer


def wait_for(cluster: Cluster, words: str) -> None:
    """Wait until something came to the broker."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S * 1000)):
        if words in cluster.words:
            return
        pause.wait(0.001)
    raise AssertionError(cluster.words)


def test_version_2_leaves_adding_to_brokers_and_takes_an_epoch_with_each_end() -> None:
    cluster = Cluster(2)
    with producing(cluster) as producer:
        for _ in range(2):
            with producer.transaction():
                producer.send("orders", b"pizza").result(PATIENCE_S)
                producer.send("orders", b"pizza")
                producer.send_offsets_to_transaction({PLACE: 5}, GroupMetadata("kitchen"))

    first, *rest = cluster.log
    assert first == ("init -1/-1", 5)
    assert sorted(rest[:4]) == [
        ("commit /0", 5),
        ("offsets /0", 5),
        ("produce 7/0 from 0", 13),
        ("produce 7/0 from 1", 13),
    ]
    assert rest[3] == ("commit /0", 5)
    assert rest[4] == ("produce 7/1 from 0", 13)
    assert rest[-1] == ("commit /1", 5)


def test_version_1_adds_first_and_keeps_its_epoch_and_its_sequence() -> None:
    cluster = Cluster(1)
    with producing(cluster) as producer:
        for _ in range(2):
            with producer.transaction():
                producer.send("orders", b"pizza").result(PATIENCE_S)
                producer.send_offsets_to_transaction({PLACE: 5}, GroupMetadata("kitchen"))

    once = [
        ("add partitions /0", 3),
        ("produce 7/0 from 0", 11),
        ("add kitchen /0", 4),
        ("offsets /0", 4),
        ("commit /0", 4),
    ]
    again = [(words.replace("from 0", "from 1"), version) for words, version in once]
    assert cluster.log == [("init -1/-1", 5), *once, *again]


@pytest.mark.parametrize("version", [1, 2])
def test_a_coordinator_that_is_busy_is_asked_again_and_not_looked_for(version: int) -> None:
    cluster = Cluster(version)
    cluster.steps[ApiKey.END_TXN] += [C.CONCURRENT_TRANSACTIONS, C.COORDINATOR_LOAD_IN_PROGRESS]
    with producing(cluster) as producer, producer.transaction():
        producer.send("orders", b"pizza")

    assert cluster.words[-3:] == ["commit /0"] * 3
    assert cluster.lookups == [(1, "till")]


@pytest.mark.parametrize("code", [C.NOT_COORDINATOR, C.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_is_none_is_looked_for(code: ErrorCode) -> None:
    cluster = Cluster(2)
    cluster.steps[ApiKey.END_TXN] += [code]
    cluster.steps[ApiKey.TXN_OFFSET_COMMIT] += [code]
    with producing(cluster) as producer, producer.transaction():
        producer.send_offsets_to_transaction({PLACE: 5}, GroupMetadata("kitchen"))

    assert cluster.words[1:] == ["offsets /0", "offsets /0", "commit /0", "commit /0"]
    assert cluster.lookups == [(1, "till"), (0, "kitchen"), (0, "kitchen"), (1, "till")]


@pytest.mark.parametrize("version", [1, 2])
def test_an_end_whose_answer_is_lost_is_asked_for_again_and_in_version_1_a_new_epoch_too(
    version: int,
) -> None:
    cluster = Cluster(version)
    cluster.steps[ApiKey.END_TXN] += [HANG_UP]
    with producing(cluster) as producer:
        with producer.transaction():
            producer.send("orders", b"pizza").result(PATIENCE_S)
        with producer.transaction():
            producer.send("orders", b"pizza")

    end = cluster.words.index("commit /0")
    assert cluster.words[end : end + 2] == ["commit /0"] * 2
    then = ["init 7/0", "add partitions /1"] if version == 1 else []
    assert cluster.words[end + 2 :] == [*then, "produce 7/1 from 0", "commit /1"]


def test_in_version_1_partitions_are_added_again_after_a_loss_and_an_epoch_is_taken() -> None:
    cluster = Cluster(1)
    cluster.steps[ApiKey.ADD_PARTITIONS_TO_TXN] += [HANG_UP, C.CONCURRENT_TRANSACTIONS]
    with producing(cluster) as producer:
        with producer.transaction():
            producer.send("orders", b"pizza")
        producer.begin_transaction()

    added = ["add partitions /0"] * 3
    assert cluster.words == ["init -1/-1", *added, "produce 7/0 from 0", "commit /0", "init 7/0"]


def test_an_abort_in_version_1_is_followed_by_a_new_epoch() -> None:
    cluster = Cluster(1)
    with producing(cluster) as producer:
        producer.begin_transaction()
        producer.send("orders", b"pizza").result(PATIENCE_S)
        producer.abort_transaction()
        with producer.transaction():
            producer.send("orders", b"pizza")

    after = cluster.words[cluster.words.index("abort /0") + 1 :]
    assert after == ["init 7/0", "add partitions /1", "produce 7/1 from 0", "commit /1"]


def test_partitions_that_are_refused_fail_the_transaction_and_its_records() -> None:
    cluster = Cluster(1)
    cluster.steps[ApiKey.ADD_PARTITIONS_TO_TXN] += [C.TOPIC_AUTHORIZATION_FAILED]
    with producing(cluster) as producer:
        producer.begin_transaction()
        delivery = producer.send("orders", b"pizza")
        with pytest.raises(TransactionFailed, match="TOPIC_AUTHORIZATION_FAILED"):
            delivery.result(PATIENCE_S)
        with pytest.raises(TransactionFailed):
            producer.commit_transaction()
        producer.abort_transaction()

    assert cluster.words == ["init -1/-1", "add partitions /0", "abort /0"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_leader_that_knows_a_newer_epoch_fences_the_producer(version: int) -> None:
    cluster = Cluster(version)
    cluster.steps[ApiKey.PRODUCE] += [C.INVALID_PRODUCER_EPOCH]
    with producing(cluster) as producer:
        producer.begin_transaction()
        delivery = producer.send("orders", b"pizza")
        assert delivery.exception(PATIENCE_S) is not None
        for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(Fenced, match="'till'"):
                call()

    assert not [words for words in cluster.words if words.startswith(("commit", "abort"))]


@pytest.mark.parametrize("version", [1, 2])
def test_a_hole_in_the_sequence_fails_the_transaction_and_is_not_closed_behind_its_back(version: int) -> None:
    cluster = Cluster(version)
    cluster.steps[ApiKey.PRODUCE] += [C.OUT_OF_ORDER_SEQUENCE_NUMBER]
    with producing(cluster) as producer:
        producer.begin_transaction()
        with pytest.raises(Refused, match="OUT_OF_ORDER"):
            producer.send("orders", b"pizza").result(PATIENCE_S)
        with pytest.raises(TransactionFailed, match="OUT_OF_ORDER"):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("orders", b"pizza")

    produced = [words for words in cluster.words if words.startswith("produce")]
    assert produced == ["produce 7/0 from 0", "produce 7/1 from 0"]
    assert cluster.words[-1] == "commit /1"


@pytest.mark.parametrize("version", [1, 2])
def test_a_batch_that_fails_takes_the_others_of_its_transaction_with_it(version: int) -> None:
    cluster = Cluster(version)
    cluster.hold_produce = threading.Event()
    cluster.steps[ApiKey.PRODUCE] += [C.INVALID_TXN_STATE]
    options = {"batch_size": 0, "max_in_flight_requests_per_connection": 1}
    with producing(cluster, **options) as producer:
        producer.begin_transaction()
        first = producer.send("orders", b"pizza")
        wait_for(cluster, "produce 7/0 from 0")
        second = producer.send("orders", b"pasta")
        cluster.hold_produce.set()
        assert isinstance(first.exception(PATIENCE_S), Refused)
        assert isinstance(second.exception(PATIENCE_S), TransactionFailed)
        with pytest.raises(TransactionFailed):
            producer.send("orders", b"soup")
        producer.abort_transaction()

    assert len([words for words in cluster.words if words.startswith("produce")]) == 1


def test_an_end_may_bring_another_id_where_epochs_are_used_up() -> None:
    cluster = Cluster(2)
    with producing(cluster) as producer:
        with producer.transaction():
            producer.send("orders", b"pizza").result(PATIENCE_S)
            cluster.producer_id, cluster.epoch = 8, -1
        with producer.transaction():
            producer.send("orders", b"pizza")

    assert cluster.words[-2:] == ["produce 8/0 from 0", "commit /0"]


def test_a_block_whose_commit_timed_out_is_not_aborted() -> None:
    cluster = Cluster(2)
    cluster.hold = threading.Event()
    with producing(cluster, max_block_ms=3000, request_timeout_ms=1000) as producer:

        def work() -> None:
            with producer.transaction():
                producer.send("orders", b"pizza").result(PATIENCE_S)

        with pytest.raises(TimedOut):
            work()
        cluster.hold.set()
        producer.commit_transaction(PATIENCE_S)

    assert "abort /0" not in cluster.words


def test_calls_come_one_after_another_and_none_waits_for_longer_than_it_may() -> None:
    cluster = Cluster(2)
    cluster.hold = threading.Event()
    with producing(cluster) as producer:
        producer.begin_transaction()
        producer.send("orders", b"pizza").result(PATIENCE_S)
        other = threading.Thread(target=producer.commit_transaction, args=(PATIENCE_S,))
        other.start()
        wait_for(cluster, "commit /0")
        with pytest.raises(TimedOut, match="another call"):
            producer.abort_transaction(0.1)
        cluster.hold.set()
        other.join(PATIENCE_S)
        producer.begin_transaction()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("api", [ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT])
def test_after_offsets_that_timed_out_nothing_is_committed_until_they_are_there(
    version: int, api: ApiKey
) -> None:
    cluster = Cluster(version)
    if version == 2:
        api = ApiKey.TXN_OFFSET_COMMIT
    with producing(cluster) as producer:
        producer.begin_transaction()
        producer.send("orders", b"pizza").result(PATIENCE_S)
        cluster.steps[api] += [C.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        with pytest.raises(TimedOut):
            producer.send_offsets_to_transaction(OFFSETS, GROUP, 0.2)
        for call in (producer.commit_transaction, producer.prepare_transaction):
            with pytest.raises(TransactionMisused, match="send_offsets_to_transaction for group 'kitchen'"):
                call()
        with pytest.raises(TransactionMisused, match="the same offsets"):
            producer.send_offsets_to_transaction({PLACE: 6}, GROUP)
        assert not [words for words in cluster.words if words.startswith("commit")]
        cluster.steps[api].clear()
        producer.send_offsets_to_transaction(OFFSETS, GROUP)
        producer.commit_transaction(PATIENCE_S)
        with producer.transaction():
            producer.send_offsets_to_transaction({PLACE: 6}, GROUP)

    assert cluster.words[-1].startswith("commit")


def test_a_block_that_goes_on_after_its_offsets_timed_out_is_aborted() -> None:
    cluster = Cluster(2)

    def work(producer: Producer) -> None:
        with producer.transaction():
            producer.send("orders", b"pizza").result(PATIENCE_S)
            cluster.steps[ApiKey.TXN_OFFSET_COMMIT] += [C.COORDINATOR_LOAD_IN_PROGRESS] * 1000
            with pytest.raises(TimedOut):
                producer.send_offsets_to_transaction(OFFSETS, GROUP, 0.2)

    with producing(cluster) as producer:
        with pytest.raises(TransactionMisused, match="commit_transaction: send_offsets_to_transaction"):
            work(producer)
        with producer.transaction():
            pass

    assert [words for words in cluster.words if words.startswith(("commit", "abort"))] == ["abort /0"]


def test_offsets_that_never_had_their_turn_are_missed_too() -> None:
    cluster = Cluster(2)
    cluster.hold_produce = threading.Event()
    raised: list[BaseException] = []
    with producing(cluster) as producer:
        producer.begin_transaction()
        producer.send("orders", b"pizza")

        def commit() -> None:
            try:
                producer.commit_transaction(PATIENCE_S)
            except TransactionMisused as error:
                raised.append(error)

        other = threading.Thread(target=commit)
        other.start()
        wait_for(cluster, "produce 7/0 from 0")
        with pytest.raises(TimedOut, match="another call"):
            producer.send_offsets_to_transaction(OFFSETS, GROUP, 0.1)
        cluster.hold_produce.set()
        other.join(PATIENCE_S)
        assert len(raised) == 1
        producer.send_offsets_to_transaction(OFFSETS, GROUP)
        producer.commit_transaction()

    assert cluster.words[-2:] == ["offsets /0", "commit /0"]


@pytest.mark.parametrize("cancels", [False, True], ids=["timed out", "cancelled"])
def test_on_a_loop_too_nothing_is_committed_while_offsets_may_be_missing(cancels: bool) -> None:
    cluster = Cluster(2)

    async def work(bootstrap: str) -> None:
        async with aio.Producer(bootstrap, transactional_id="till", retry_backoff_ms=5) as producer:
            await producer.init_transactions(PATIENCE_S)
            await producer.begin_transaction()
            cluster.steps[ApiKey.TXN_OFFSET_COMMIT] += [C.COORDINATOR_LOAD_IN_PROGRESS] * 1000
            with pytest.raises(TimeoutError if cancels else TimedOut):
                async with asyncio.timeout(0.2 if cancels else PATIENCE_S):
                    await producer.send_offsets_to_transaction(OFFSETS, GROUP, None if cancels else 0.2)
            for call in (producer.commit_transaction, producer.prepare_transaction):
                with pytest.raises(TransactionMisused, match="or abort_transaction"):
                    await call()
            cluster.steps[ApiKey.TXN_OFFSET_COMMIT].clear()
            await producer.send_offsets_to_transaction(OFFSETS, GROUP)
            await producer.commit_transaction()

    with ScriptedBroker(cluster, features={"transaction.version": 2}) as broker:
        cluster.port = broker.port
        asyncio.run(work(f"127.0.0.1:{broker.port}"))
    assert cluster.words[-2:] == ["offsets /0", "commit /0"]


def test_an_id_that_may_not_be_used_is_refused_for_good() -> None:
    cluster = Cluster(2)
    cluster.steps[ApiKey.END_TXN] += [C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    with producing(cluster) as producer:
        producer.begin_transaction()
        producer.send("orders", b"pizza")
        for call in (producer.commit_transaction, producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(Refused, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
                call()


def test_nothing_is_added_after_an_abort_and_the_records_that_wait_for_it_are_dropped() -> None:
    cluster = Cluster(1)
    cluster.steps[ApiKey.ADD_PARTITIONS_TO_TXN] += [C.CONCURRENT_TRANSACTIONS] * 1000
    cluster.hold = threading.Event()
    with producing(cluster) as producer:
        producer.begin_transaction()
        delivery = producer.send("orders", b"pizza")
        wait_for(cluster, "add partitions /0")
        # Long enough for whoever asks every few milliseconds to ask again.
        threading.Timer(0.5, cluster.hold.set).start()
        producer.abort_transaction()
        with pytest.raises(TransactionAborted):
            delivery.result(PATIENCE_S)

    assert cluster.words[-1] == "abort /0"
    assert not [words for words in cluster.words if words.startswith("produce")]
