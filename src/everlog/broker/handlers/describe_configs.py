"""DescribeConfigs, versions 1 to 4.

1 tells where a value comes from and, if asked, what else would apply (its synonyms); 3 adds the type and, if
asked, what the config means; 4 is flexible. Without names, or with none, all configs are described.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from everlog.broker.config_entries import (
    ConfigEntry,
    broker_entries,
    broker_layers,
    default_broker_entries,
    named,
    topic_entries,
)
from everlog.broker.exchange import Exchange
from everlog.metadata.image import ResourceType, topic_resource
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import topic_name_problem
from everlog.wire.long_answers import LongAnswer
from everlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: DescribeConfigsRequest, exchange: Exchange) -> None:
    """Describe the configs of each resource once, or say why that cannot be; a few at a time."""
    version = exchange.api_version
    distinct = {
        (one.resource_type, one.resource_name, frozenset(one.configuration_keys or ())): one
        for one in request.resources
    }
    left = list(distinct.values())[::-1]
    described = LongAnswer(_answer_with, version, exchange.correlation_id)

    def step(enough: Callable[[], bool]) -> bool:
        while left and not exchange.abandoned:
            described.add([_result(broker, left.pop(), request)])
            if enough():
                return not left
        return True

    broker.slices.run(step, lambda: exchange.answer_parts(described.frame()))


def _answer_with(results: list[DescribeConfigsResult]) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=results)


def _result(
    broker: "Broker", resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        entries = _entries(broker, resource.resource_type, resource.resource_name)
    except Refused as refused:
        result.error_code = refused.code
        result.error_message = str(refused)
        return result
    result.configs = [
        _described(entry, synonyms=request.include_synonyms, meaning=request.include_documentation)
        for entry in named(entries, resource.configuration_keys or None)
    ]
    return result


def _entries(broker: "Broker", resource_type: int, name: str) -> list[ConfigEntry]:
    layers = broker_layers(broker.static_settings, broker.image, broker.node_id)
    match resource_type:
        case ResourceType.TOPIC:
            problem = topic_name_problem(name)
            if problem is not None:
                raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
            if name not in broker.image.topics:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
            return topic_entries(broker.image.config(topic_resource(name)), layers)
        case ResourceType.BROKER:
            if not name:
                return default_broker_entries(broker.image)
            if name != str(broker.node_id):
                # Only the broker itself knows what its file says; clients ask each for its own.
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"the broker is {name!r}, expected {broker.node_id}, which was asked, or nothing for all",
                )
            return broker_entries(layers)
        case _:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"resource type {resource_type} has no configs here, expected a topic (2) or a broker (4)",
            )


def _described(entry: ConfigEntry, *, synonyms: bool, meaning: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=origin.key, value=origin.text, source=origin.source)
            for origin in entry.origins
        ]
        if synonyms
        else [],
        config_type=entry.kind,
        documentation=entry.meaning if meaning else None,
    )
