"""Metadata records in their frame: version, type, version of the type, body."""

import pytest

from everlog.metadata.records import decode_record, encode_record
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Uuid
from everlog.wire.message import Message
from everlog.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from everlog.wire.messages.config_record import ConfigRecord
from everlog.wire.messages.feature_level_record import FeatureLevelRecord
from everlog.wire.messages.no_op_record import NoOpRecord
from everlog.wire.messages.partition_change_record import PartitionChangeRecord
from everlog.wire.messages.partition_record import PartitionRecord
from everlog.wire.messages.producer_ids_record import ProducerIdsRecord
from everlog.wire.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from everlog.wire.messages.remove_topic_record import RemoveTopicRecord
from everlog.wire.messages.topic_record import TopicRecord

AN_ID = Uuid(bytes(range(16)))


def test_a_topic_record_has_the_bytes_that_kafka_writes() -> None:
    value = encode_record(TopicRecord(name="foo", topic_id=AN_ID))

    # Frame 1, type 2, version 0; compact string of 3, the id, no tagged fields.
    assert value == b"\x01\x02\x00" + b"\x04foo" + bytes(range(16)) + b"\x00"


def test_a_feature_record_has_the_bytes_that_kafka_writes() -> None:
    value = encode_record(FeatureLevelRecord(name="metadata.version", feature_level=30))

    assert value == b"\x01\x0c\x00" + b"\x11metadata.version" + b"\x00\x1e" + b"\x00"


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name="orders", topic_id=AN_ID),
        PartitionRecord(
            partition_id=3, topic_id=AN_ID, replicas=[1, 2], isr=[1], leader=1, directories=[AN_ID]
        ),
        PartitionChangeRecord(partition_id=3, topic_id=AN_ID, leader=2, isr=[2]),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=None),
        RemoveTopicRecord(topic_id=AN_ID),
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=AN_ID,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=65_535)],
            rack=None,
            log_dirs=[AN_ID],
        ),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9, fenced=-1),
        ProducerIdsRecord(broker_id=1, broker_epoch=4, next_producer_id=2000),
        NoOpRecord(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_records_come_back_as_they_were(record: Message) -> None:
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "no value"),
        (b"", "ends within its frame"),
        (b"\x01", "ends within its frame"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x63\x00", "type 99"),
        (b"\x01\x02\x09\x04foo", "TopicRecord version 9 cannot be read"),
        (b"\x01\x02\x00\x04fo", "TopicRecord version 0 cannot be read"),
        (b"\xff\xff\xff\xff\xff\xff", "more than five bytes"),
    ],
)
def test_what_is_no_record_is_corrupt_data(value: bytes | None, expected: str) -> None:
    with pytest.raises(CorruptDataError, match=expected):
        decode_record(value)
