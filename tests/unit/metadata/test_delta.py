"""Images: records in, the cluster out, and nothing changed that was handed out before (R8)."""

import time

import pytest

from everlog.metadata import image_records
from everlog.metadata.delta import FENCE, UNFENCE, Delta, apply, apply_with_changes
from everlog.metadata.image import EMPTY_IMAGE, ClusterImage, ConfigResource, ResourceType, topic_resource
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset, Uuid
from everlog.wire.message import Message
from everlog.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from everlog.wire.messages.client_quota_record import ClientQuotaRecord
from everlog.wire.messages.config_record import ConfigRecord
from everlog.wire.messages.feature_level_record import FeatureLevelRecord
from everlog.wire.messages.partition_change_record import PartitionChangeRecord
from everlog.wire.messages.partition_record import PartitionRecord
from everlog.wire.messages.producer_ids_record import ProducerIdsRecord
from everlog.wire.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from everlog.wire.messages.remove_topic_record import RemoveTopicRecord
from everlog.wire.messages.topic_record import TopicRecord
from everlog.wire.messages.unregister_broker_record import UnregisterBrokerRecord


def an_id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def a_topic(name: str, number: int, partitions: int = 1) -> list[Message]:
    return [
        TopicRecord(name=name, topic_id=an_id(number)),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=an_id(number),
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            )
            for index in range(partitions)
        ),
    ]


def a_config(topic: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic, name=name, value=value)


def image_of(*records: Message) -> ClusterImage:
    return apply(EMPTY_IMAGE, records, 3)


def test_topics_are_found_by_name_and_by_id() -> None:
    image = image_of(*a_topic("orders", 7, partitions=2))

    assert image.topics["orders"] is image.topics_by_id[an_id(7)]
    assert len(image.topics["orders"].partitions) == 2
    assert image.partition_count == 2
    assert (image.end_offset, image.epoch) == (3, 3)


def test_partitions_that_stand_on_the_same_brokers_share_what_says_so() -> None:
    records = a_topic("orders", 7, partitions=2)
    for record in records:
        if isinstance(record, PartitionRecord):
            record.directories = [Uuid(bytes(range(16)))]

    first, second = image_of(*records).topics["orders"].partitions

    # A million partitions are kept, and most differ in nothing but their number.
    assert first.replicas is first.isr
    assert first.replicas is second.replicas
    assert first.directories is second.directories


def test_an_image_that_was_handed_out_does_not_change() -> None:
    before = image_of(*a_topic("orders", 7), a_config("orders", "retention.ms", "1"))
    held = (dict(before.topics), dict(before.topics_by_id), before.config(topic_resource("orders")))

    apply(before, [*a_topic("more", 8), a_config("orders", "retention.ms", "2")], 3)
    apply(before, [RemoveTopicRecord(topic_id=an_id(7))], 3)

    assert held == (before.topics, before.topics_by_id, {"retention.ms": "1"})


def test_what_did_not_change_is_shared() -> None:
    before = image_of(*a_topic("orders", 7))

    after = apply(before, [ProducerIdsRecord(next_producer_id=1000)], 3)

    assert after.topics is before.topics
    assert after.configs is before.configs
    assert after.next_producer_id == 1000


def test_a_removed_topic_takes_its_configs_along() -> None:
    before = image_of(*a_topic("orders", 7, 3), a_config("orders", "retention.ms", "1"))

    after, changes = apply_with_changes(before, [RemoveTopicRecord(topic_id=an_id(7))], 3)

    assert not after.topics
    assert not after.topics_by_id
    assert not after.configs
    assert after.partition_count == 0
    assert changes.deleted == (before.topics["orders"],)
    assert changes.topics == ()


def test_a_topic_made_anew_in_the_same_records_is_the_new_one() -> None:
    before = image_of(*a_topic("orders", 7))

    after, changes = apply_with_changes(
        before, [RemoveTopicRecord(topic_id=an_id(7)), *a_topic("orders", 8, 2)], 3
    )

    assert after.topics["orders"].id == an_id(8)
    assert list(after.topics_by_id) == [an_id(8)]
    assert after.partition_count == 2
    assert changes.topics == ("orders",)
    assert [topic.id for topic in changes.deleted] == [an_id(7)]


def test_a_topic_made_and_removed_in_the_same_records_leaves_nothing() -> None:
    after = image_of(*a_topic("orders", 7), RemoveTopicRecord(topic_id=an_id(7)))

    assert not after.topics
    assert after.partition_count == 0


def test_a_config_set_to_null_is_not_set() -> None:
    image = image_of(
        a_config("orders", "a", "1"), a_config("orders", "b", "2"), a_config("orders", "a", None)
    )

    assert image.configs == {ConfigResource(ResourceType.TOPIC, "orders"): {"b": "2"}}


def test_a_resource_without_configs_is_left_out() -> None:
    image = apply(image_of(a_config("orders", "a", "1")), [a_config("orders", "a", None)], 3)

    assert not image.configs


def test_a_named_leader_begins_a_new_leader_epoch_and_each_change_a_new_partition_epoch() -> None:
    image = image_of(
        *a_topic("orders", 7),
        PartitionChangeRecord(partition_id=0, topic_id=an_id(7), leader=1),
        PartitionChangeRecord(partition_id=0, topic_id=an_id(7), isr=[1, 2]),
    )

    (partition,) = image.topics["orders"].partitions
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 2)
    assert partition.isr == (1, 2)
    assert partition.replicas == (1,)


def a_registration(epoch: int = 5) -> RegisterBrokerRecord:
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="here", port=9092, security_protocol=0)
    return RegisterBrokerRecord(
        broker_id=1, broker_epoch=epoch, end_points=[endpoint], rack=None, fenced=True
    )


def test_a_broker_is_active_once_it_is_unfenced() -> None:
    fenced = image_of(a_registration())
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=UNFENCE)
    unfenced = apply(fenced, [change], 3)

    assert not list(fenced.active_brokers())
    assert [broker.epoch for broker in unfenced.active_brokers()] == [5]
    fenced_again = apply(unfenced, [BrokerRegistrationChangeRecord(broker_id=1, fenced=FENCE)], 3)
    assert not list(fenced_again.active_brokers())
    assert not apply(unfenced, [UnregisterBrokerRecord(broker_id=1)], 3).brokers


def test_a_feature_at_level_zero_is_off() -> None:
    image = image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="x", feature_level=1),
        FeatureLevelRecord(name="x", feature_level=0),
    )

    assert image.features == {"metadata.version": 30}
    assert image.features_offset == 2


def test_where_no_feature_is_on_nobody_knows_since_when() -> None:
    image = image_of(
        FeatureLevelRecord(name="x", feature_level=1), FeatureLevelRecord(name="x", feature_level=0)
    )

    assert (image.features, image.features_offset) == ({}, -1)
    assert image_records.image_of(image_records.image_records(image), image.end_offset, image.epoch) == image


@pytest.mark.parametrize(
    "records",
    [
        [PartitionRecord(partition_id=0, topic_id=an_id(9))],
        [*a_topic("orders", 7), PartitionRecord(partition_id=2, topic_id=an_id(7))],
        [*a_topic("orders", 7), PartitionChangeRecord(partition_id=1, topic_id=an_id(7))],
        [RemoveTopicRecord(topic_id=an_id(7))],
        [BrokerRegistrationChangeRecord(broker_id=4)],
        [ClientQuotaRecord()],
    ],
    ids=["no topic", "gap", "no partition", "remove nothing", "no broker", "unknown kind"],
)
def test_a_record_that_cannot_follow_is_corrupt_data(records: list[Message]) -> None:
    with pytest.raises(CorruptDataError):
        image_of(*records)


def test_a_change_among_twenty_thousand_topics_is_cheap() -> None:
    delta = Delta(EMPTY_IMAGE)
    for number in range(1, 20_001):
        for record in a_topic(f"topic-{number}", number):
            delta.replay(record, Offset(0))
    image, _ = delta.finish(Offset(40_000), 1)

    began = time.perf_counter()
    for number in range(20_001, 20_051):
        image = apply(image, a_topic(f"topic-{number}", number), 1)
    each_ms = (time.perf_counter() - began) * 1000 / 50

    assert image.partition_count == 20_050
    assert each_ms < 20, f"{each_ms:.2f} ms a change"
