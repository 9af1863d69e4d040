"""Fetch: long polls, limits, isolation, epochs, sessions and errors, as clients rely on them (L2, C1, R3)."""

from everlog.log.partition import Origin
from everlog.model.errors import ErrorCode
from everlog.model.ids import LeaderEpoch, Uuid
from everlog.records.batch import batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.control import ControlType, Producer, build_marker
from everlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from everlog.wire.messages.fetch import FetchResponse, PartitionData
from tests.unit.broker.simulated import Client, SimulatedNode, a_batch, a_fetch, fetched, produced, records_of


def a_node(*values: bytes, partitions: int = 1) -> tuple[SimulatedNode, Client]:
    node = SimulatedNode()
    node.create_topic("orders", partitions=partitions)
    client = node.client()
    for value in values:
        produced(client, "orders", a_batch(value))
    return node, client


def values(data: PartitionData) -> list[bytes | None]:
    return [record.value for record in records_of(data)]


def test_any_number_of_readers_read_the_same_records_from_anywhere() -> None:
    node, client = a_node(b"a", b"b", b"c")
    other = node.client()

    assert values(fetched(client, "orders", 0)) == [b"a", b"b", b"c"]
    assert values(fetched(other, "orders", 1)) == [b"b", b"c"]
    assert values(fetched(client, "orders", 0)) == [b"a", b"b", b"c"]


def test_a_fetch_at_the_end_is_empty_and_beyond_it_is_out_of_range() -> None:
    _, client = a_node(b"a")

    at_end, beyond, before = (fetched(client, "orders", offset) for offset in (1, 2, -1))

    assert (at_end.error_code, bytes(at_end.records or b"")) == (0, b"")
    assert at_end.records is not None, "no data is zero length, not null"
    assert beyond.error_code == before.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert beyond.high_watermark == 1


def test_a_long_poll_is_answered_by_the_next_append_and_not_before() -> None:
    node, client = a_node()
    producer = node.client()

    client.ask(a_fetch("orders", 0, max_wait_ms=500), 12)
    assert client.frames == []
    produced(producer, "orders", a_batch(b"now"))

    assert values(client.take(FetchResponse).responses[0].partitions[0]) == [b"now"]


def test_a_long_poll_ends_empty_when_its_time_is_up() -> None:
    node, client = a_node()

    client.ask(a_fetch("orders", 0, max_wait_ms=500), 12)
    node.pass_time(499)
    assert client.frames == []
    node.pass_time(1)

    assert client.take(FetchResponse).responses[0].partitions[0].records == b""


def test_a_fetch_waits_until_there_are_enough_bytes() -> None:
    node, client = a_node()
    producer = node.client()
    size = len(a_batch(b"x" * 100))

    client.ask(a_fetch("orders", 0, max_wait_ms=500, min_bytes=2 * size), 12)
    produced(producer, "orders", a_batch(b"x" * 100))
    assert client.frames == []
    produced(producer, "orders", a_batch(b"x" * 100))

    assert len(values(client.take(FetchResponse).responses[0].partitions[0])) == 2


def test_the_first_batch_comes_whole_however_small_the_limits_are() -> None:
    _, client = a_node(b"x" * 5000, b"y" * 5000)

    data = fetched(client, "orders", 0, max_bytes=1, partition_max_bytes=1)

    assert values(data) == [b"x" * 5000]


def test_the_limit_of_the_whole_answer_is_kept_behind_the_first_batch() -> None:
    node, client = a_node(partitions=2)
    node.replica("orders", 1).opened().append(
        batch_at(bytearray(a_batch(b"second"))), LeaderEpoch(0), node.clock.wall(), Origin.CLIENT
    )
    produced(client, "orders", a_batch(b"first" * 100))

    answer = client.call(a_fetch("orders", 0, 0, max_bytes=100), 12, FetchResponse)

    first, second = answer.responses[0].partitions
    assert values(first) == [b"first" * 100]
    assert (second.error_code, second.records, second.high_watermark) == (0, b"", 1)


def test_unknown_topics_and_ids_are_answered_at_once_beside_the_known() -> None:
    node, client = a_node(b"a")
    topic_id = node.broker.image.topics["orders"].id

    by_name = client.call(a_fetch("nothing", 0, max_wait_ms=10_000), 12, FetchResponse)
    by_id = client.call(a_fetch(Uuid(b"?" * 16), 0, max_wait_ms=10_000), 13, FetchResponse)
    known = client.call(a_fetch(topic_id, 0), 13, FetchResponse)
    partition = client.call(a_fetch(topic_id, 0, 0, max_wait_ms=10_000), 13, FetchResponse)

    assert by_name.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_id.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert values(known.responses[0].partitions[0]) == [b"a"]
    assert [one.error_code for one in partition.responses[0].partitions] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_reader_of_another_epoch_is_told_which_way_it_is_wrong() -> None:
    node, client = a_node(b"a")
    node.replica("orders").leader_epoch = LeaderEpoch(5)

    assert fetched(client, "orders", 0, leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert fetched(client, "orders", 0, leader_epoch=6).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetched(client, "orders", 0, leader_epoch=5).error_code == 0


def test_a_reader_whose_log_left_ours_is_told_where() -> None:
    node, client = a_node(b"a", b"b")
    node.replica("orders").leader_epoch = LeaderEpoch(3)
    produced(client, "orders", a_batch(b"c"))

    # The reader has three records of epoch 0; here that epoch ended after two.
    data = fetched(client, "orders", 3, last_fetched_epoch=0)
    ahead = fetched(client, "orders", 3, last_fetched_epoch=4)

    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 0, 2)
    assert data.records == b""
    assert ahead.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_client_cannot_pose_as_a_replica() -> None:
    _, client = a_node(b"a")

    answer = client.call(a_fetch("orders", 0, replica_id=2), 12, FetchResponse)

    assert answer.responses[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.responses[0].partitions[0].records == b""


def in_transaction(node: SimulatedNode, value: bytes, producer_id: int, sequence: int) -> None:
    batch = build_batch(
        [NewRecord(b"k", value, (), 1_700_000_000_000)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    node.replica("orders").opened().append(
        batch_at(batch), LeaderEpoch(0), node.clock.wall(), Origin.COORDINATOR
    )


def ended(node: SimulatedNode, producer_id: int, *, commit: bool) -> None:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    marker = build_marker(kind, Producer(producer_id, 0), coordinator_epoch=0, timestamp=1)
    node.replica("orders").opened().append(
        batch_at(marker), LeaderEpoch(0), node.clock.wall(), Origin.COORDINATOR
    )


def test_a_reader_of_committed_records_stops_before_the_first_open_transaction() -> None:
    node, client = a_node(b"plain")
    in_transaction(node, b"open", 9, 0)
    produced(client, "orders", a_batch(b"behind"))

    committed = fetched(client, "orders", 0, isolation_level=1)
    everything = fetched(client, "orders", 0)

    assert values(committed) == [b"plain"]
    assert (committed.high_watermark, committed.last_stable_offset) == (3, 1)
    assert committed.aborted_transactions == []
    assert values(everything) == [b"plain", b"open", b"behind"]
    assert everything.aborted_transactions is None


def test_aborted_ranges_come_with_the_records_they_are_in() -> None:
    node, client = a_node()
    in_transaction(node, b"bad", 9, 0)
    in_transaction(node, b"good", 8, 0)
    ended(node, 9, commit=False)
    ended(node, 8, commit=True)

    data = fetched(client, "orders", 0, isolation_level=1)

    assert data.last_stable_offset == 4
    assert data.aborted_transactions is not None
    assert [(one.producer_id, one.first_offset) for one in data.aborted_transactions] == [(9, 0)]


def test_a_session_answers_only_what_has_changed() -> None:
    _, client = a_node(b"a", partitions=2)
    opened = client.call(a_fetch("orders", 0, 0, session=(0, 0)), 12, FetchResponse)
    assert opened.session_id != 0
    assert len(opened.responses[0].partitions) == 2

    # Nothing is repeated: the session knows what is wanted.
    quiet = client.call(a_fetch("orders", session=(opened.session_id, 1)), 12, FetchResponse)
    assert [one.partition_index for topic in quiet.responses for one in topic.partitions] == [0]
    wrong = client.call(a_fetch("orders", session=(opened.session_id, 1)), 12, FetchResponse)
    unknown = client.call(a_fetch("orders", session=(12345, 1)), 12, FetchResponse)

    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_waiting_fetch_is_answered_when_its_topic_is_deleted() -> None:
    node, client = a_node(b"a")
    client.ask(a_fetch("orders", 1, max_wait_ms=10_000), 12)

    node.client().call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5, DeleteTopicsResponse)

    answer = client.take(FetchResponse)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fetch_whose_client_has_gone_is_dropped() -> None:
    node, client = a_node()
    client.ask(a_fetch("orders", 0, max_wait_ms=500), 12)

    client.session.closed()
    produced(node.client(), "orders", a_batch(b"a"))
    node.pass_time(1000)

    assert client.frames == []


def test_damaged_records_are_not_sent() -> None:
    node, _ = a_node(b"good" * 100)
    node.node.close()
    node.files.flip_bit("/data/orders-0/00000000000000000000.log", 100, 3)
    node.start()

    data = fetched(node.client(), "orders", 0)

    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert data.records == b""
