"""API key to handler, for what a controller serves."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from everlog.broker.exchange import Exchange
from everlog.broker.request_limits import decode_limited
from everlog.model.errors import ProtocolError
from everlog.wire.apis import APIS, ApiKey
from everlog.wire.codec import read_request_header, too_new_api_versions

if TYPE_CHECKING:
    from everlog.broker.desk.desk import Desk

# The request is whatever message the handler's own API has; decode_limited gives it just that.
Handler = Callable[["Desk", Any, Exchange], None]

_BROKERS_OWN = "everlog.broker.handlers"
_OURS = "everlog.broker.desk.handlers"

COMMANDS: dict[int, str] = {
    ApiKey.CREATE_TOPICS: f"{_OURS}.create_topics",
    ApiKey.DELETE_TOPICS: f"{_OURS}.delete_topics",
    ApiKey.CREATE_PARTITIONS: f"{_OURS}.create_partitions",
    ApiKey.ALTER_CONFIGS: f"{_OURS}.alter_configs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: f"{_OURS}.incremental_alter_configs",
    ApiKey.ELECT_LEADERS: f"{_OURS}.elect_leaders",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: f"{_OURS}.alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: f"{_OURS}.list_partition_reassignments",
    ApiKey.UPDATE_FEATURES: f"{_OURS}.update_features",
    ApiKey.UNREGISTER_BROKER: f"{_OURS}.unregister_broker",
    ApiKey.DESCRIBE_QUORUM: f"{_OURS}.describe_quorum",
    ApiKey.ADD_RAFT_VOTER: f"{_OURS}.add_raft_voter",
    ApiKey.REMOVE_RAFT_VOTER: f"{_OURS}.remove_raft_voter",
}
"""What clients may ask of any broker, which then asks the controller."""

_MODULES: dict[int, str] = {
    **COMMANDS,
    ApiKey.API_VERSIONS: f"{_BROKERS_OWN}.api_versions",
    ApiKey.FETCH: f"{_OURS}.fetch_metadata",
    ApiKey.VOTE: f"{_OURS}.vote",
    ApiKey.BEGIN_QUORUM_EPOCH: f"{_OURS}.begin_quorum_epoch",
    ApiKey.END_QUORUM_EPOCH: f"{_OURS}.end_quorum_epoch",
    ApiKey.BROKER_REGISTRATION: f"{_OURS}.broker_registration",
    ApiKey.BROKER_HEARTBEAT: f"{_OURS}.broker_heartbeat",
    ApiKey.ALTER_PARTITION: f"{_OURS}.alter_partition",
    ApiKey.ALLOCATE_PRODUCER_IDS: f"{_OURS}.allocate_producer_ids",
    ApiKey.CONTROLLER_REGISTRATION: f"{_OURS}.controller_registration",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: f"{_OURS}.assign_replicas_to_dirs",
    ApiKey.UPDATE_RAFT_VOTER: f"{_OURS}.update_raft_voter",
    ApiKey.FETCH_SNAPSHOT: f"{_OURS}.fetch_snapshot",
    ApiKey.ENVELOPE: f"{_OURS}.envelope",
}
_handlers: dict[int, Handler] = {}

ADVERTISED: dict[int, tuple[int, int]] = {
    int(key): (APIS[key].advertised_min, APIS[key].advertised_max) for key in _MODULES
}
"""API key to the versions that ApiVersions tells of on a controller listener."""


def dispatch(desk: "Desk", api_key: int, exchange: Exchange, frame: memoryview) -> None:
    """Decode one request and hand it to its handler; ProtocolError if a controller does not serve it."""
    version = exchange.api_version
    api = APIS.get(api_key)
    if api is None or api_key not in _MODULES:
        raise ProtocolError(f"API key {api_key} is not served by a controller")
    if not api.has(version):
        if api_key == ApiKey.API_VERSIONS and version > api.max_version:
            exchange.answer_parts((too_new_api_versions(exchange.correlation_id),))
            return
        raise ProtocolError(
            f"version {version} of {api.name} is not served, expected {api.min_version} to {api.max_version}"
        )
    header = read_request_header(frame)
    exchange.client_id = header.client_id
    handler(api_key)(desk, decode_limited(header, frame), exchange)


def handler(api_key: int) -> Handler:
    """The handler of an API; it is imported when it is first needed."""
    found = _handlers.get(api_key)
    if found is None:
        found = _handlers[api_key] = cast(Handler, import_module(_MODULES[api_key]).handle)
    return found
