"""What a producer can be told, and what contradicts itself (P1-P5)."""

from typing import Any

import pytest

from everlog.client.core.producer.settings import ACKS_ALL, ProducerSettings, producer_settings
from everlog.model.errors import ConfigError
from everlog.records.compression import Codec


def settings(**options: Any) -> ProducerSettings:
    return producer_settings("127.0.0.1:9092", options)


def test_the_defaults_are_those_of_kafka_4() -> None:
    found = settings()
    assert (found.acks, found.linger_ms, found.batch_size) == (ACKS_ALL, 5, 16384)
    assert (found.buffer_memory, found.max_block_ms, found.max_request_size) == (33554432, 60000, 1048576)
    assert (found.compression_type, found.max_in_flight_requests_per_connection) == ("none", 5)
    assert (found.retries, found.delivery_timeout_ms) == (2**31 - 1, 120000)
    assert found.enable_idempotence
    assert (found.transactional_id, found.transaction_timeout_ms) == (None, 60000)


@pytest.mark.parametrize("given", ["all", "-1", -1])
def test_acks_of_all_have_three_names(given: object) -> None:
    assert settings(acks=given).acks == ACKS_ALL


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"acks": 2}, "acks=2"),
        ({"acks": True}, "acks=True"),
        ({"linger_ms": -1}, "linger_ms=-1"),
        ({"batch_size": "large"}, "batch_size='large'"),
        ({"compression_type": "brotli"}, "compression_type='brotli'"),
        ({"partitioner": "mine"}, "partitioner='mine'"),
        ({"key_serializer": "json"}, "key_serializer='json'"),
        ({"lingerms": 5}, "did you mean linger_ms"),
        ({"compression_level": 3}, "compression_level=3.*'none' has no levels"),
        ({"compression_type": "gzip", "compression_level": 10}, "compression_level=10.*1 to 9 for gzip"),
        ({"compression_type": "snappy", "compression_level": 1}, "'snappy' has no levels"),
        ({"delivery_timeout_ms": 1000}, "delivery_timeout_ms=1000.*30005"),
    ],
)
def test_what_is_wrong_is_refused_by_name(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"acks": 1}, "acks=1: expected 'all'"),
        ({"retries": 0}, "retries=0"),
        ({"max_in_flight_requests_per_connection": 6}, "max_in_flight_requests_per_connection=6"),
    ],
)
def test_idempotence_gives_way_unless_it_was_asked_for(options: dict[str, object], words: str) -> None:
    assert not settings(**options).enable_idempotence
    with pytest.raises(ConfigError, match=words):
        settings(**options, enable_idempotence=True)
    with pytest.raises(ConfigError, match=words):
        settings(**options, transactional_id="t")


def test_transactions_need_idempotence() -> None:
    with pytest.raises(ConfigError, match=r"transactional_id='t'.*enable_idempotence"):
        settings(transactional_id="t", enable_idempotence=False)


def test_the_delivery_time_out_follows_a_longer_request_time_out_unless_it_was_given() -> None:
    assert settings(request_timeout_ms=200_000).delivery_timeout_ms == 200_005
    with pytest.raises(ConfigError, match="delivery_timeout_ms"):
        settings(request_timeout_ms=200_000, delivery_timeout_ms=120_000)


def test_levels_are_those_of_the_codec() -> None:
    assert settings(compression_type="zstd", compression_level=19).codec is Codec.ZSTD
    assert settings(compression_type="lz4", compression_level=9).compression_level == 9
