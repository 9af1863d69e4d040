"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources in all their versions (O1)."""

import errno

import pytest

from everlog.broker.topic_settings import min_insync_replicas, topic_log_settings
from everlog.model.errors import ErrorCode
from everlog.model.settings import BROKER_SETTINGS, INTERNAL_KEYS, TOPIC_SETTINGS, Kind, Source
from everlog.sim.faults import Fault
from everlog.sim.faults import Kind as DiskKind
from everlog.wire.messages import alter_configs as replacing
from everlog.wire.messages import incremental_alter_configs as changing
from everlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from everlog.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.unit.broker.handlers.nodes import SimNode
from tests.unit.broker.handlers.test_metadata import a_node

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = 0, 1, 2


def change(
    node: SimNode, kind: int, resource: str, *changes: tuple[str, int, str | None], version: int = 1
) -> tuple[int, str | None]:
    configs = [
        changing.AlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    ]
    request = changing.IncrementalAlterConfigsRequest(
        resources=[changing.AlterConfigsResource(resource_type=kind, resource_name=resource, configs=configs)]
    )
    (answer,) = node.ask(request, version, changing.IncrementalAlterConfigsResponse).responses
    assert (answer.resource_type, answer.resource_name) == (kind, resource)
    return answer.error_code, answer.error_message


def describe(
    node: SimNode, kind: int, resource: str, *names: str, version: int = 4, **fields: bool
) -> DescribeConfigsResult:
    wanted = DescribeConfigsResource(
        resource_type=kind, resource_name=resource, configuration_keys=list(names) or None
    )
    request = DescribeConfigsRequest(resources=[wanted], **fields)
    (answer,) = node.ask(request, version, DescribeConfigsResponse).results
    return answer


def one(node: SimNode, kind: int, resource: str, name: str, **fields: bool) -> DescribeConfigsResourceResult:
    (found,) = describe(node, kind, resource, name, **fields).configs
    return found


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes_all_configs_of_a_topic(version: int) -> None:
    node = a_node("orders")
    change(node, TOPIC, "orders", ("retention.ms", SET, "5"))

    answer = describe(
        node, TOPIC, "orders", version=version, include_synonyms=True, include_documentation=version >= 3
    )

    assert (answer.error_code, answer.error_message) == (0, None)
    configs = {config.name: config for config in answer.configs}
    assert set(configs) == set(TOPIC_SETTINGS) - INTERNAL_KEYS
    retention = configs["retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only) == ("5", Source.TOPIC, False)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in retention.synonyms] == [
        ("retention.ms", "5", Source.TOPIC), ("log.retention.hours", "168", Source.DEFAULT),
    ]  # fmt: skip
    if version >= 3:
        assert retention.config_type == Kind.LONG
        assert retention.documentation == TOPIC_SETTINGS["retention.ms"].setting.meaning
        assert configs["cleanup.policy"].config_type == Kind.LIST


def test_synonyms_and_meanings_are_told_only_if_asked_for() -> None:
    config = one(a_node("orders"), TOPIC, "orders", "segment.bytes")

    assert (config.synonyms, config.documentation) == ([], None)


def test_only_the_configs_asked_for_are_described_and_none_named_is_all() -> None:
    node = a_node("orders")

    assert [config.name for config in describe(node, TOPIC, "orders", "flush.ms", "no.such").configs] == [
        "flush.ms"
    ]
    wanted = DescribeConfigsResource(resource_type=TOPIC, resource_name="orders", configuration_keys=[])
    answer = node.ask(DescribeConfigsRequest(resources=[wanted]), 4, DescribeConfigsResponse)
    assert len(answer.results[0].configs) == len(TOPIC_SETTINGS) - len(INTERNAL_KEYS)


def test_a_brokers_configs_tell_its_file_and_its_defaults() -> None:
    node = a_node(num_partitions="3")

    configs = {config.name: config for config in describe(node, BROKER, "1").configs}

    assert set(configs) == set(BROKER_SETTINGS)
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == (
        "3",
        Source.STATIC_BROKER,
    )
    assert configs["num.partitions"].read_only
    assert not configs["log.retention.hours"].read_only
    assert configs["log.retention.ms"].value is None
    assert configs["log.retention.hours"].config_source == Source.DEFAULT


def test_what_is_set_for_brokers_while_running_counts_for_topics_at_once() -> None:
    node = a_node("orders", log_retention_ms="1")

    change(node, BROKER, "", ("log.retention.ms", SET, "2"))
    assert one(node, TOPIC, "orders", "retention.ms").value == "2"
    assert one(node, TOPIC, "orders", "retention.ms").config_source == Source.DYNAMIC_DEFAULT_BROKER
    change(node, BROKER, "1", ("log.retention.ms", SET, "3"))
    assert one(node, TOPIC, "orders", "retention.ms").value == "3"

    assert [(config.name, config.value) for config in describe(node, BROKER, "").configs] == [
        ("log.retention.ms", "2")
    ]
    assert one(node, BROKER, "1", "log.retention.ms", include_synonyms=True).synonyms[0].source == (
        Source.DYNAMIC_BROKER
    )
    settings = topic_log_settings(node.broker.settings, node.broker.image, "orders")
    assert settings.retention_ms == 3, "and logs obey what is described"


@pytest.mark.parametrize(
    ("kind", "resource", "code"),
    [
        (TOPIC, "x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),
        (99, "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_each_resource_that_cannot_be_described_has_its_error(
    kind: int, resource: str, code: ErrorCode
) -> None:
    answer = describe(a_node("orders"), kind, resource)

    assert answer.error_code == code
    assert answer.error_message
    assert answer.configs == []


@pytest.mark.parametrize("version", [0, 1])
def test_every_version_changes_configs_and_refuses_wrong_ones(version: int) -> None:
    node = a_node("orders")

    assert change(node, TOPIC, "orders", ("retention.ms", SET, "5"), version=version) == (0, None)
    code, message = change(node, TOPIC, "orders", ("retention.ms", SET, "x"), version=version)
    assert code == ErrorCode.INVALID_CONFIG
    assert message is not None
    assert "retention.ms is 'x'" in message
    assert change(node, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"), version=version)[0] == 0
    assert one(node, TOPIC, "orders", "cleanup.policy").value == "delete,compact"
    assert change(node, TOPIC, "orders", ("retention.ms", DELETE, None), version=version)[0] == 0
    assert one(node, TOPIC, "orders", "retention.ms").value == "604800000"


@pytest.mark.parametrize("version", range(3))
def test_every_version_replaces_configs(version: int) -> None:
    node = a_node("orders")
    change(node, TOPIC, "orders", ("retention.ms", SET, "5"))

    def replaced(validate_only: bool) -> list[int]:
        resources = [
            replacing.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name=name,
                configs=[replacing.AlterableConfig(name="segment.ms", value="7")],
            )
            for name in ("orders", "x")
        ]
        request = replacing.AlterConfigsRequest(resources=resources, validate_only=validate_only)
        return [
            answer.error_code
            for answer in node.ask(request, version, replacing.AlterConfigsResponse).responses
        ]

    assert replaced(validate_only=True) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert one(node, TOPIC, "orders", "retention.ms").value == "5"
    assert replaced(validate_only=False) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert one(node, TOPIC, "orders", "retention.ms").value == "604800000"
    assert one(node, TOPIC, "orders", "segment.ms").value == "7"


def test_no_resources_is_an_empty_answer() -> None:
    node = a_node()

    assert node.ask(DescribeConfigsRequest(), 4, DescribeConfigsResponse).results == []
    assert node.ask(replacing.AlterConfigsRequest(), 2, replacing.AlterConfigsResponse).responses == []
    empty = changing.IncrementalAlterConfigsRequest()
    assert node.ask(empty, 1, changing.IncrementalAlterConfigsResponse).responses == []


def test_a_disk_that_refuses_is_an_error_that_may_be_tried_again() -> None:
    node = a_node("orders")
    node.files.faults = [Fault(DiskKind.APPEND, errno.ENOSPC)]

    assert change(node, TOPIC, "orders", ("retention.ms", SET, "5"))[0] == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topics_logs_obey_its_overrides() -> None:
    node = a_node("orders", log_segment_bytes="2097152")
    change(
        node, TOPIC, "orders",
        ("cleanup.policy", SET, "compact"), ("message.timestamp.type", SET, "LogAppendTime"),
        ("compression.type", SET, "zstd"), ("compression.zstd.level", SET, "7"), ("flush.messages", SET, "1"),
        ("min.insync.replicas", SET, "2"),
    )  # fmt: skip

    settings = topic_log_settings(node.broker.settings, node.broker.image, "orders")

    assert (settings.cleanup_compact, settings.cleanup_delete) == (True, False)
    assert settings.log_append_time
    assert (settings.compression_type, settings.compression_level) == ("zstd", 7)
    assert settings.flush_messages == 1
    assert settings.segment_bytes == 2_097_152
    assert min_insync_replicas(node.broker.settings, node.broker.image, "orders") == 2
    assert topic_log_settings(node.broker.settings, node.broker.image, "other").compression_level is None


def test_tests_may_ask_for_tiny_segments() -> None:
    node = a_node("orders")
    change(node, TOPIC, "orders", ("internal.segment.bytes", SET, "1000"))

    assert topic_log_settings(node.broker.settings, node.broker.image, "orders").segment_bytes == 1000
    assert one(node, TOPIC, "orders", "internal.segment.bytes").value == "1000"


def listed(node: SimNode, *types: int, version: int = 1) -> list[tuple[int, str]]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    answer = node.ask(request, version, ListConfigResourcesResponse)
    assert answer.error_code == 0
    return [(found.resource_type, found.resource_name) for found in answer.config_resources]


def test_resources_are_listed_by_type_and_all_without_one() -> None:
    node = a_node("a", "b")

    assert listed(node, TOPIC) == [(TOPIC, "a"), (TOPIC, "b")]
    assert listed(node, BROKER, TOPIC) == [(BROKER, "1"), (TOPIC, "a"), (TOPIC, "b")]
    assert listed(node) == [(TOPIC, "a"), (TOPIC, "b"), (BROKER, "1"), (8, "1")]
    assert listed(node, 16, 32) == []
    assert listed(node, version=0) == []


def test_a_type_that_is_not_known_is_refused() -> None:
    answer = a_node().ask(ListConfigResourcesRequest(resource_types=[99]), 1, ListConfigResourcesResponse)

    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
