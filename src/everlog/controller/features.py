"""Features: the levels that the cluster works at, raised and lowered by whoever runs it (KIP-584)."""

from collections import Counter
from enum import IntEnum

from everlog.controller.decisions import Decision, Refusal, Standing
from everlog.metadata.features import SUPPORTED_FEATURES
from everlog.metadata.image import ClusterImage
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode
from everlog.wire.message import Message
from everlog.wire.messages.feature_level_record import FeatureLevelRecord


class UpgradeType(IntEnum):
    """Which way a level may go, with the number that UpdateFeatures gives it."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level that a feature is to have; 0 switches it off."""

    name: str
    level: int
    type: int = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    """Change the levels of features, all or none; the reply is why not, or None."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False

    def decide(self, standing: Standing) -> Decision[Refusal | None]:
        """Write each level that differs; none at all if one cannot be."""
        image = standing.image
        times = Counter(update.name for update in self.updates)
        records: list[Message] = []
        for update in self.updates:
            if times[update.name] > 1:
                return Decision(
                    (), Refusal(ErrorCode.INVALID_REQUEST, f"the feature {update.name} is named twice")
                )
            problem = _problem(update, image)
            if problem is not None:
                return Decision((), Refusal(ErrorCode.INVALID_UPDATE_VERSION, problem))
            if update.level != image.features.get(update.name, 0):
                records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
        return Decision(() if self.validate_only else tuple(records), None)


def _problem(update: FeatureUpdate, image: ClusterImage) -> str | None:
    name, level = update.name, update.level
    now = image.features.get(name, 0)
    if update.type not in list(UpgradeType):
        return f"the upgrade type of {name} is {update.type}, expected 1, 2 or 3"
    if name not in SUPPORTED_FEATURES:
        return f"{name} is no feature that this version knows, expected {', '.join(SUPPORTED_FEATURES)}"
    lowest, highest = SUPPORTED_FEATURES[name]
    if not lowest <= level <= highest:
        return f"the level of {name} is to be {level}, expected {lowest} to {highest} for this controller"
    for broker in image.brokers.values():
        low, high = broker.features.get(name, (0, 0))
        if not low <= level <= high:
            return f"the level of {name} is to be {level}, expected {low} to {high} for broker {broker.id}"
    if level < now and update.type == UpgradeType.UPGRADE:
        return f"the level of {name} is {now}, expected a downgrade to be asked for to get to {level}"
    if level > now and update.type != UpgradeType.UPGRADE:
        return f"the level of {name} is {now}, expected an upgrade to be asked for to get to {level}"
    return None
