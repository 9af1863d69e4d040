"""ApiVersions, versions 0 to 5: which requests this broker, or this controller's desk, serves.

3 is flexible and brings the client's name, 4 may name features that start at 0, 5 lets a client say whom it
expects. A version above ours is answered in the format of version 0, which any client can read (KIP-511).
"""

import re
from collections.abc import Mapping
from typing import Protocol

from everlog.broker.exchange import Exchange
from everlog.metadata.features import SUPPORTED_FEATURES
from everlog.metadata.image import ClusterImage
from everlog.model.errors import ErrorCode
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.wire.apis import APIS, ApiKey
from everlog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_CLIENT_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?\Z")
_FIRST_WITH_CLIENT_SOFTWARE = 3
_FIRST_WITH_CLUSTER = 5
_FIRST_WITH_FEATURES_FROM_0 = 4


class Host(Protocol):
    """What broker and desk have in common."""

    @property
    def cluster_id(self) -> str:
        """The cluster that it belongs to."""
        ...

    @property
    def node_id(self) -> int:
        """Its number there."""
        ...

    @property
    def advertised(self) -> Mapping[int, tuple[int, int]]:
        """API key to the versions that are told of."""
        ...

    @property
    def settings(self) -> BrokerSettings:
        """What the node was told."""
        ...

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is committed."""
        ...


def handle(broker: Host, request: ApiVersionsRequest, exchange: Exchange) -> None:
    """Answer the list of APIs, or say what is wrong with who asks."""
    version = exchange.api_version
    if version >= _FIRST_WITH_CLIENT_SOFTWARE and not (
        _CLIENT_SOFTWARE.match(request.client_software_name)
        and _CLIENT_SOFTWARE.match(request.client_software_version)
    ):
        exchange.answer(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    if version >= _FIRST_WITH_CLUSTER:
        problem = _wrong_cluster(broker, request)
        if problem is not None:
            exchange.answer(ApiVersionsResponse(error_code=problem))
            return
    exchange.answer(served(broker, version))


def _wrong_cluster(broker: Host, request: ApiVersionsRequest) -> ErrorCode | None:
    names_cluster, names_node = request.cluster_id is not None, request.node_id >= 0
    if names_cluster != names_node:
        return ErrorCode.INVALID_REQUEST
    if names_cluster and (request.cluster_id != broker.cluster_id or request.node_id != broker.node_id):
        return ErrorCode.REBOOTSTRAP_REQUIRED
    return None


def _advertised(broker: Host) -> Mapping[int, tuple[int, int]]:
    """What is served and stable, and what is not yet stable where a setting asks for it."""
    stable = broker.advertised.get(ApiKey.INIT_PRODUCER_ID)
    if stable is None or not broker.settings[keys.TRANSACTION_TWO_PHASE_COMMIT_ENABLE]:
        return broker.advertised
    return {
        **broker.advertised,
        ApiKey.INIT_PRODUCER_ID: (stable[0], APIS[ApiKey.INIT_PRODUCER_ID].max_version),
    }


def served(broker: Host, version: int) -> ApiVersionsResponse:
    """The full answer: every API in the dispatch table, and the features of the cluster."""
    features = broker.image.features
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(_advertised(broker).items())
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            if low > 0 or version >= _FIRST_WITH_FEATURES_FROM_0
        ],
        finalized_features_epoch=broker.image.features_offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(features.items())
        ],
    )
