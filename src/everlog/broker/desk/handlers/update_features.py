"""UpdateFeatures, versions 0 to 2.

0 has a flag for downgrades, 1 their kind and a dry run; 2 answers with one error for all, as each request is
done whole or not at all in every version.
"""

from everlog.broker.desk.seat import Seat
from everlog.broker.exchange import Exchange
from everlog.controller.decisions import Refusal
from everlog.controller.features import FeatureUpdate, UpdateFeatures, UpgradeType
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_FIRST_WITH_TYPE = 1
_FIRST_WITHOUT_RESULTS = 2


def handle(desk: Seat, request: UpdateFeaturesRequest, exchange: Exchange) -> None:
    """Change the levels of features, or say why not."""
    version = exchange.api_version

    def done(reply: Refusal | Refused | StorageError | None) -> None:
        refusal = Refusal.of(reply) if isinstance(reply, Refused | StorageError) else reply
        code = ErrorCode.NONE if refusal is None else refusal.code
        message = None if refusal is None else refusal.message
        exchange.answer(
            UpdateFeaturesResponse(
                error_code=code,
                error_message=message,
                results=[]
                if version >= _FIRST_WITHOUT_RESULTS
                else [
                    UpdatableFeatureResult(feature=one.feature, error_code=code, error_message=message)
                    for one in request.feature_updates
                ],
            )
        )

    updates = tuple(
        FeatureUpdate(one.feature, one.max_version_level, _type(one, version))
        for one in request.feature_updates
    )
    desk.controller.submit(UpdateFeatures(updates, request.validate_only), done)


def _type(one: FeatureUpdateKey, version: int) -> int:
    if version >= _FIRST_WITH_TYPE:
        return one.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if one.allow_downgrade else UpgradeType.UPGRADE
