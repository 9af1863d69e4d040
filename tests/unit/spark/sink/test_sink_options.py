"""D2: the sink's options, and each thing that a user may get wrong in one line."""

import re

import pytest

from everlog.model.errors import ConfigError
from everlog.spark.sink.names import new_task_id, query_of_write, transactional_id_prefix
from everlog.spark.sink.options import Guarantee, SinkOptions
from everlog.spark.sink.routing import columns_to_write

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(**options: str) -> SinkOptions:
    return SinkOptions.read({**SERVERS, **{name.replace("_", "."): value for name, value in options.items()}})


def test_what_is_not_said_has_a_default() -> None:
    found = read()
    assert found.guarantee is Guarantee.EXACTLY_ONCE
    assert (found.topic, found.commit_group, found.write_id, found.checkpoint) == (None, None, None, None)
    assert found.headers
    assert not found.timestamp
    assert found.transaction_timeout_ms == 900_000


def test_options_of_the_client_are_passed_on_with_their_types() -> None:
    found = read(kafka_compression_type="zstd", kafka_batch_size="1000", kafka_transaction_timeout_ms="5000")
    assert dict(found.producer) == {"compression_type": "zstd", "batch_size": 1000}
    assert found.transaction_timeout_ms == 5000
    assert found.admin == {}
    assert hash(found) == hash(
        read(kafka_transaction_timeout_ms="5000", kafka_batch_size="1000", kafka_compression_type="zstd")
    )


def test_what_jobs_for_javas_producer_have_is_understood() -> None:
    round_robin = read(kafka_partitioner_class="org.apache.kafka.clients.producer.RoundRobinPartitioner")
    assert dict(round_robin.producer) == {"partitioner": "round_robin"}
    assert dict(read(kafka_metadata_max_idle_ms="300000").producer) == {}
    levels = {"kafka.compression.zstd.level": "5", "kafka.compression.gzip.level": "9"}
    assert dict(read(**levels).producer) == {}
    assert dict(read(**levels, kafka_compression_type="zstd").producer) == {
        "compression_type": "zstd",
        "compression_level": 5,
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kafka.partitioner.class": "com.shop.Ours"}, "there is no Java here to run it, expected one of"),
        (
            {"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "much"},
            "option kafka.compression.zstd.level='much': expected a whole number",
        ),
        (
            {"kafka.compression.type": "gzip", "kafka.compression.gzip.level": "40"},
            "compression_level=40: expected 1 to 9 for gzip",
        ),
        ({"deliveryGuarantee": "twice"}, "option deliveryGuarantee='twice': expected exactly_once or at_l"),
        ({"kafka.acks": "1"}, "option kafka.acks='1' contradicts deliveryGuarantee=exactly_once"),
        ({"asyncProgressTrackingEnabled": "true"}, "asyncProgressTrackingEnabled=true contradicts delivery"),
        ({"kafka.enable.idempotence": "false"}, "option kafka.enable.idempotence='false' contradicts"),
        ({"kafka.transactional.id": "x"}, "option kafka.transactional.id is not supported"),
        ({"kafka.value.serializer": "x"}, "option kafka.value.serializer is not supported"),
        ({"kafka.batch.size": "big"}, "option kafka.batch.size='big': expected a whole number"),
        ({"topic": " "}, "option topic=' ': expected a name"),
        ({"includeHeaders": "yes"}, "option includeHeaders='yes': expected true or false"),
        ({"deliveryGuarante": "x"}, "unknown option deliveryGuarante: did you mean deliveryGuarantee?"),
        ({"topic": "no such topic"}, "option topic='no such topic': "),
        ({"bootstrap.servers": "x"}, "did you mean kafka.bootstrap.servers?"),
        (
            {"valueFormat": "protobuf", "protobufDescriptors": "/no/such", "protobufMessage": "m"},
            "option valueFormat=protobuf: protobufDescriptors is '/no/such'",
        ),
        ({"valueFormat": "xml"}, "option valueFormat='xml': expected one of json, avro"),
        ({"avroSchema": "{}"}, "option avroschema goes with valueFormat, which is not given"),
        ({"batchId": "3"}, "option batchId=3 goes with writeId, which is not given"),
        ({"writeId": "w", "batchId": "x"}, "option batchId='x': expected the number of a batch"),
        ({"acceptLostBatch": "-1"}, "option acceptLostBatch='-1': expected the number of a batch"),
    ],
)
def test_what_will_not_do_is_named(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        SinkOptions.read({**SERVERS, **options})


def test_at_least_once_takes_spark_s_quicker_way_to_keep_progress() -> None:
    quick = read(deliveryGuarantee="at_least_once", asyncProgressTrackingEnabled="true")
    assert quick.guarantee is Guarantee.AT_LEAST_ONCE
    assert read(asyncProgressTrackingEnabled="false").guarantee is Guarantee.EXACTLY_ONCE


def test_at_least_once_takes_fewer_acks() -> None:
    assert read(deliveryGuarantee="at_least_once", kafka_acks="1").guarantee is Guarantee.AT_LEAST_ONCE
    with pytest.raises(ConfigError, match="acks"):
        read(deliveryGuarantee="at_least_once", kafka_acks="2")


HEADERS = "array<struct<key:string,value:binary>>"


def test_columns_are_those_of_sparks_connector() -> None:
    types = {"key": "string", "value": "binary", "topic": "string", "partition": "int", "headers": HEADERS}
    assert columns_to_write(types, read()) == ["value", "key", "partition", "headers"]
    assert columns_to_write({**types, "offset": "bigint"}, read(includeHeaders="false")) == [
        "value",
        "key",
        "partition",
    ]
    assert columns_to_write({"value": "string"}, read(topic="t")) == ["value"]
    timed = {"value": "string", "timestamp": "timestamp"}
    assert columns_to_write(timed, read(topic="t", includeTimestamp="true")) == ["value", "timestamp"]


def test_other_columns_become_the_value_with_a_format() -> None:
    types = {"key": "string", "id": "bigint", "price": "double"}
    assert columns_to_write(types, read(topic="t", valueFormat="json")) == ["value", "key"]
    with pytest.raises(ConfigError, match="there is no column to make values of"):
        columns_to_write({"key": "string"}, read(topic="t", valueFormat="json"))


@pytest.mark.parametrize(
    ("types", "says"),
    [
        ({"v": "string"}, "the sink needs a column 'value' of type string or binary: found columns 'v'"),
        ({"value": "int"}, "column 'value' is of type int: expected string or binary"),
        ({"Value": "string"}, "column 'Value': expected it to be called 'value'"),
        ({"value": "string", "key": "bigint"}, "column 'key' is of type bigint: expected string or binary"),
        ({"value": "string", "partition": "string"}, "column 'partition' is of type string: expected int"),
        ({"value": "string", "headers": "string"}, f"column 'headers' is of type string: expected {HEADERS}"),
    ],
)
def test_a_column_that_will_not_do_is_named(types: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        columns_to_write(types, read(topic="t"))


def test_a_topic_is_needed() -> None:
    with pytest.raises(ConfigError, match="expected the option topic or a column 'topic'"):
        columns_to_write({"value": "string"}, read())
    with pytest.raises(ConfigError, match="column 'topic' is of type int: expected string"):
        columns_to_write({"value": "string", "topic": "int"}, read())


def test_no_query_is_taken_for_another_by_its_ids() -> None:
    names = [query_of_write("a"), query_of_write("a.b"), query_of_write("a%2Eb"), query_of_write("a.")]
    for one in names:
        mine = new_task_id(one)
        assert [other for other in names if mine.startswith(transactional_id_prefix(other))] == [one]
