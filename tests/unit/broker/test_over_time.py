"""What time and restarts do: retention, deletion, checkpoints, changed settings, what survives (L5, L10)."""

from everlog.model.errors import ErrorCode
from everlog.model.ids import Offset
from everlog.model.settings import broker_table
from everlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from everlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from everlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
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
from tests.unit.broker.simulated import Client, SimulatedNode, a_batch, fetched, produced, records_of

HOUR_MS = 3_600_000
NOON = 1_700_000_000_000


def an_offset(client: Client, timestamp: int, version: int = 11) -> tuple[int, int, int]:
    """Error, offset and timestamp that ListOffsets gives for partition 0."""
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
            )
        ]
    )
    found = client.call(request, version, ListOffsetsResponse).topics[0].partitions[0]
    return found.error_code, found.offset, found.timestamp


def deleted_before(client: Client, offset: int) -> tuple[int, int]:
    """Error and new start offset that DeleteRecords gives for partition 0."""
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
            )
        ],
        timeout_ms=1000,
    )
    found = client.call(request, 2, DeleteRecordsResponse).topics[0].partitions[0]
    return found.error_code, found.low_watermark


def set_config(client: Client, topic: str, name: str, value: str) -> int:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2,
                resource_name=topic,
                configs=[AlterableConfig(name=name, config_operation=0, value=value)],
            )
        ]
    )
    return client.call(request, 1, IncrementalAlterConfigsResponse).responses[0].error_code


def test_every_special_timestamp_is_answered() -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    client = node.client()
    for hour in (0, 5, 2):
        produced(client, "orders", a_batch(b"x", timestamp=NOON - (10 - hour) * HOUR_MS))

    assert an_offset(client, -1) == (0, 3, -1)
    assert an_offset(client, -2) == (0, 0, -1)
    assert an_offset(client, -3) == (0, 1, NOON - 5 * HOUR_MS)
    assert an_offset(client, -4) == (0, 0, -1)
    assert an_offset(client, -5) == (0, -1, -1)
    assert an_offset(client, -6) == (0, -1, -1)
    assert an_offset(client, -7)[0] == ErrorCode.INVALID_REQUEST


def test_a_moment_finds_the_first_record_at_or_after_it() -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    client = node.client()
    for number in range(5):
        produced(client, "orders", a_batch(b"x", timestamp=NOON - 1000 + number * 100))

    assert an_offset(client, NOON - 1000) == (0, 0, NOON - 1000)
    assert an_offset(client, NOON - 950) == (0, 1, NOON - 900)
    assert an_offset(client, 0) == (0, 0, NOON - 1000)
    assert an_offset(client, NOON) == (0, -1, -1), "nothing found is no error"


def test_expired_segments_go_and_the_log_starts_behind_them() -> None:
    node = SimulatedNode(log_retention_check_interval_ms="60000")
    node.create_topic(
        "orders", retention_ms=str(HOUR_MS), file_delete_delay_ms="1000", segment_bytes="1048576"
    )
    client = node.client()
    for _ in range(3):
        produced(client, "orders", a_batch(b"x" * 600_000, timestamp=node.clock.wall()))
    node.pass_time(2 * HOUR_MS)
    node.aside.run_all()
    node.pass_time(60_000)
    node.aside.run_all()

    assert an_offset(client, -2) == (0, 3, -1)
    assert fetched(client, "orders", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert produced(client, "orders", a_batch(b"y", timestamp=node.clock.wall())).base_offset == 3
    node.pass_time(10_000)
    node.aside.run_all()
    logs = [name for name in node.files.names("/data/orders-0") if ".log" in name]
    assert logs == ["00000000000000000003.log"]


def test_deleted_records_stay_deleted_over_a_crash() -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    client = node.client()
    for value in (b"a", b"b", b"c"):
        produced(client, "orders", a_batch(value))

    assert deleted_before(client, 2) == (0, 2)
    assert deleted_before(client, 9)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched(client, "orders", 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    node.start()  # As after kill -9: nothing was closed.

    assert an_offset(node.client(), -2)[1] == 2
    assert deleted_before(node.client(), -1) == (0, 3), "-1 is the high watermark"


def test_acknowledged_records_topics_and_settings_survive_a_kill() -> None:
    node = SimulatedNode()
    topic_id = node.create_topic("orders", partitions=3, retention_ms="12345")
    client = node.client()
    produced(client, "orders", a_batch(b"kept", producer=(7, 0, 0)))

    node.start()

    client = node.client()
    assert node.broker.image.topics["orders"].id == topic_id
    assert node.replica("orders").opened().settings.retention_ms == 12345
    assert [record.value for record in records_of(fetched(client, "orders", 0))] == [b"kept"]
    again = produced(client, "orders", a_batch(b"kept", producer=(7, 0, 0)))
    assert (again.error_code, again.base_offset) == (0, 0), "the producer's window survives as well"


def test_each_life_of_a_broker_leads_under_leader_epochs_of_its_own() -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    produced(node.client(), "orders", a_batch(b"a"))
    first = node.replica("orders").leader_epoch

    node.node.close()
    node.start()
    clean = node.replica("orders").leader_epoch
    node.start()

    assert first < clean < node.replica("orders").leader_epoch


def test_a_topic_made_anew_does_not_inherit_records() -> None:
    node = SimulatedNode()
    old = node.create_topic("orders")
    client = node.client()
    produced(client, "orders", a_batch(b"old"))

    client.call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5, DeleteTopicsResponse)
    new = node.create_topic("orders")

    assert new != old
    assert an_offset(client, -1)[1] == 0
    assert produced(client, "orders", a_batch(b"new")).base_offset == 0


def test_the_files_of_a_deleted_topic_go_after_a_while() -> None:
    node = SimulatedNode()
    node.create_topic("orders", file_delete_delay_ms="60000")
    client = node.client()
    produced(client, "orders", a_batch(b"a"))

    client.call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5, DeleteTopicsResponse)
    assert any(name.endswith("-delete") for name in node.files.names("/data"))
    node.pass_time(70_000)
    node.aside.run_all()

    assert not any(name.startswith("orders") for name in node.files.names("/data"))


def test_a_changed_setting_is_obeyed_at_once() -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    client = node.client()
    assert produced(client, "orders", a_batch(b"x" * 2000)).error_code == 0

    assert set_config(client, "orders", "max.message.bytes", "1000") == 0
    assert produced(client, "orders", a_batch(b"x" * 2000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert set_config(client, "orders", "min.insync.replicas", "2") == 0
    assert produced(client, "orders", a_batch(b"x")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert set_config(client, "orders", "retention.ms", "soon") == ErrorCode.INVALID_CONFIG


def test_a_log_is_synced_once_it_is_quiet() -> None:
    node = SimulatedNode(log_flush_offset_checkpoint_interval_ms="60000")
    node.create_topic("orders")
    produced(node.client(), "orders", a_batch(b"a"))
    node.pass_time(60_000)
    node.aside.run_all()
    produced(node.client(), "orders", a_batch(b"b"))
    node.pass_time(60_000)
    node.aside.run_all()
    assert node.replica("orders").opened().recovery_point == 0, "it is under load, and left to the system"

    node.pass_time(60_000)
    node.aside.run_all()

    assert node.replica("orders").opened().recovery_point == 2
    checkpoint = node.files.read("/data/recovery-point-offset-checkpoint").decode()
    assert "orders 0 2" in checkpoint


def test_start_offsets_are_written_down_and_producers_forgotten_at_intervals_of_their_own() -> None:
    node = SimulatedNode(
        log_flush_offset_checkpoint_interval_ms="3600000",
        log_flush_start_offset_checkpoint_interval_ms="5000",
        log_retention_check_interval_ms="3600000",
        producer_id_expiration_check_interval_ms="20000",
        producer_id_expiration_ms="1",
    )
    node.create_topic("orders")
    produced(node.client(), "orders", a_batch(b"a", b"b", producer=(7, 0, 0)))
    log = node.replica("orders", 0).opened()
    log.move_start_to(Offset(1))

    node.pass_time(5_000)
    node.aside.run_all()
    assert b"orders 0 1" in node.files.read("/data/log-start-offset-checkpoint")
    node.pass_time(14_000)
    assert log.producers.get(7) is not None
    node.pass_time(1_000)
    assert log.producers.get(7) is None


def test_the_end_of_an_epoch_is_told() -> None:
    node = SimulatedNode()
    node.create_topic("orders")
    produced(node.client(), "orders", a_batch(b"a", b"b"))
    node.start()
    produced(node.client(), "orders", a_batch(b"c"))
    epoch = node.replica("orders").leader_epoch

    def end_of(asked: int) -> tuple[int, int, int]:
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(
                    topic="orders",
                    partitions=[
                        OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=asked)
                    ],
                )
            ],
        )
        found = node.client().call(request, 4, OffsetForLeaderEpochResponse).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert end_of(0) == (0, 0, 2)
    assert end_of(epoch) == (0, epoch, 3)
    assert end_of(epoch + 5) == (0, -1, -1)


def test_whoever_holds_connections_is_told_of_changed_broker_settings() -> None:
    node = SimulatedNode()
    told: list[int] = []
    node.broker.on_settings_changed = lambda settings: told.append(settings[broker_table.MAX_CONNECTIONS])
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=4,
                resource_name="1",
                configs=[AlterableConfig(name="max.connections", config_operation=0, value="77")],
            )
        ]
    )

    answer = node.client().call(request, 1, IncrementalAlterConfigsResponse)

    assert answer.responses[0].error_code == 0
    assert told == [77]


def test_sealed_segments_are_synced_even_under_load() -> None:
    node = SimulatedNode(log_flush_offset_checkpoint_interval_ms="60000")
    node.create_topic("orders", segment_bytes="1048576")
    for _ in range(2):
        produced(node.client(), "orders", a_batch(b"x" * 600_000))

    node.pass_time(60_000)
    node.aside.run_all()

    assert node.replica("orders").opened().recovery_point == 2
