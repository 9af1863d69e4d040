"""API key to handler: which requests are served, in which versions, and by whom.

An API stands here once it is served, and what stands here is what ApiVersions advertises.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from everlog.broker.desk.dispatch import COMMANDS
from everlog.broker.exchange import Exchange
from everlog.broker.handlers import fetch, produce
from everlog.broker.request_limits import decode_limited
from everlog.model.errors import ProtocolError
from everlog.wire.apis import APIS, FIRST_OWN_KEY, ApiKey
from everlog.wire.codec import read_request_header, too_new_api_versions
from everlog.wire.hot import fetch as hot_fetch
from everlog.wire.hot import produce as hot_produce
from everlog.wire.hot.reading import MAX_TAGGED_FIELDS, skip_tags

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

# The request is whatever message the handler's own API has; decode_limited gives it just that.
Handler = Callable[["Broker", Any, Exchange], None]

_PRODUCE = int(ApiKey.PRODUCE)
_FETCH = int(ApiKey.FETCH)
_PRODUCE_FLEXIBLE = hot_produce.FIRST_FLEXIBLE
_FETCH_FLEXIBLE = hot_fetch.FIRST_FLEXIBLE
_API_VERSIONS = int(ApiKey.API_VERSIONS)

# Handlers are imported at first use, with the messages they need: a broker is ready before anyone asks
# for most of them.
_MODULES: dict[int, str] = {
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "join_group",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave_group",
    ApiKey.SYNC_GROUP: "sync_group",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets_to_txn",
    ApiKey.END_TXN: "end_txn",
    ApiKey.WRITE_TXN_MARKERS: "write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "txn_offset_commit",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    ApiKey.GET_REPLICA_LOG_INFO: "get_replica_log_info",
}
_handlers: dict[int, Handler] = {}

SERVED: dict[int, tuple[int, int]] = {
    int(key): (APIS[key].min_version, APIS[key].max_version)
    for key in (_PRODUCE, _FETCH, *_MODULES, *COMMANDS)
}
"""API key to the versions that are served."""

ADVERTISED: dict[int, tuple[int, int]] = {
    key: (APIS[key].advertised_min, APIS[key].advertised_max) for key in SERVED if key < FIRST_OWN_KEY
}
"""API key to the versions that ApiVersions tells of; not those that are not stable, or our own."""


def dispatch(
    broker: "Broker", api_key: int, exchange: Exchange, frame: memoryview, after_client_id: int
) -> None:
    """Decode one request and hand it to its handler; ProtocolError if we do not serve it."""
    version = exchange.api_version
    low, high = SERVED.get(api_key, (0, -1))
    if not low <= version <= high:
        _refuse_version(api_key, exchange, low, high)
        return
    if api_key == _PRODUCE:
        at = after_client_id
        if version >= _PRODUCE_FLEXIBLE:
            at = _after_tags(frame, at)
        produce.handle(broker, hot_produce.read_produce(frame, at, version), exchange)
    elif api_key == _FETCH:
        at = after_client_id
        if version >= _FETCH_FLEXIBLE:
            at = _after_tags(frame, at)
        fetch.handle(broker, hot_fetch.read_fetch(frame, at, version), exchange)
    elif api_key in COMMANDS:
        # Most starts come to serve before anybody commands something.
        from everlog.broker.forwarding import forward

        forward(broker, api_key, exchange, frame)
    else:
        header = read_request_header(frame)
        exchange.client_id = header.client_id
        _handler(api_key)(broker, decode_limited(header, frame), exchange)


def _after_tags(frame: memoryview, at: int) -> int:
    try:
        if frame[at] == 0:
            return at + 1
        return skip_tags(frame, at, MAX_TAGGED_FIELDS)[0]
    except IndexError:
        raise ProtocolError("a request ends inside its header") from None


def _refuse_version(api_key: int, exchange: Exchange, low: int, high: int) -> None:
    if api_key == _API_VERSIONS and exchange.api_version > high:
        exchange.answer_parts((too_new_api_versions(exchange.correlation_id),))
        return
    if high < low:
        raise ProtocolError(f"API key {api_key} is not served")
    raise ProtocolError(
        f"version {exchange.api_version} of {ApiKey(api_key).name} is not served, expected {low} to {high}"
    )


def _handler(api_key: int) -> Handler:
    handler = _handlers.get(api_key)
    if handler is None:
        module = import_module(f"everlog.broker.handlers.{_MODULES[api_key]}")
        handler = _handlers[api_key] = cast(Handler, module.handle)
    return handler
