"""Which features a cluster has, new or of an earlier version."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from everlog.controller.brokers import InitializeCluster
from everlog.controller.decisions import Standing
from everlog.controller.features import FeatureUpdate, UpdateFeatures, UpgradeType
from everlog.metadata.features import GROUP_VERSION, SUPPORTED_FEATURES, TRANSACTION_VERSION
from everlog.metadata.image import EMPTY_IMAGE
from everlog.metadata.records import METADATA_LEVEL, METADATA_VERSION
from everlog.model.errors import ErrorCode
from everlog.sim.chance import SimRandom
from everlog.wire.messages.feature_level_record import FeatureLevelRecord
from tests.unit.controller.clusters import Cluster
from tests.unit.coordinator.worlds import some_settings


def written(features: Mapping[str, int]) -> dict[str, int]:
    """The levels that are written at the start of a cluster which has these."""
    standing = Standing(replace(EMPTY_IMAGE, features=features), some_settings(), SimRandom("features"))
    levels: dict[str, int] = {}
    for record in InitializeCluster().decide(standing).records:
        assert isinstance(record, FeatureLevelRecord)
        levels[record.name] = record.feature_level
    return levels


def test_a_new_cluster_gets_the_highest_level_of_each_feature_and_that_of_the_metadata_first() -> None:
    levels = written({})

    assert levels == {name: highest for name, (_, highest) in SUPPORTED_FEATURES.items()}
    assert next(iter(levels)) == METADATA_VERSION
    assert levels[GROUP_VERSION] == 1


def test_a_cluster_of_an_earlier_version_gets_the_features_that_it_lacks() -> None:
    levels = written({METADATA_VERSION: METADATA_LEVEL})

    assert METADATA_VERSION not in levels
    assert levels[GROUP_VERSION] == 1


def test_a_cluster_that_has_all_features_is_left_as_it_is() -> None:
    assert written(dict.fromkeys(SUPPORTED_FEATURES, 1)) == {}


def test_levels_go_down_and_up_again_where_that_is_asked_for() -> None:
    cluster = Cluster(2)

    assert cluster.do(UpdateFeatures((FeatureUpdate(GROUP_VERSION, 0, UpgradeType.SAFE_DOWNGRADE),))) is None
    assert GROUP_VERSION not in cluster.image.features
    raised = (FeatureUpdate(GROUP_VERSION, 1), FeatureUpdate(METADATA_VERSION, METADATA_LEVEL))
    assert cluster.decide(UpdateFeatures(raised, validate_only=True)).records == ()
    assert cluster.do(UpdateFeatures(raised)) is None
    assert cluster.image.features[GROUP_VERSION] == 1


@pytest.mark.parametrize(
    ("update", "said"),
    [
        (FeatureUpdate(GROUP_VERSION, 0), "expected a downgrade to be asked for"),
        (FeatureUpdate(GROUP_VERSION, 2), "expected 0 to 1 for this controller"),
        (FeatureUpdate(GROUP_VERSION, -1), "expected 0 to 1"),
        (FeatureUpdate(GROUP_VERSION, 1, 9), "the upgrade type of group.version is 9"),
        (FeatureUpdate("wings.version", 1), "no feature that this version knows"),
        (FeatureUpdate(METADATA_VERSION, 1, UpgradeType.UNSAFE_DOWNGRADE), "metadata.version is to be 1"),
    ],
)
def test_a_level_that_cannot_be_leaves_all_as_they_are(update: FeatureUpdate, said: str) -> None:
    cluster = Cluster(1)
    good = FeatureUpdate(TRANSACTION_VERSION, 1, UpgradeType.SAFE_DOWNGRADE)

    decision = cluster.decide(UpdateFeatures((good, update)))

    assert decision.records == ()
    assert decision.reply is not None
    assert decision.reply.code is ErrorCode.INVALID_UPDATE_VERSION
    assert said in decision.reply.message


def test_a_level_that_one_broker_cannot_work_at_is_refused() -> None:
    cluster = Cluster(1)
    cluster.do(UpdateFeatures((FeatureUpdate(GROUP_VERSION, 0, UpgradeType.SAFE_DOWNGRADE),)))
    cluster.register(2, features={**SUPPORTED_FEATURES, GROUP_VERSION: (0, 0)})

    reply = cluster.do(UpdateFeatures((FeatureUpdate(GROUP_VERSION, 1),)))

    assert reply is not None
    assert "for broker 2" in reply.message
    twice = cluster.do(UpdateFeatures((FeatureUpdate(GROUP_VERSION, 0),) * 2))
    assert twice is not None
    assert twice.code is ErrorCode.INVALID_REQUEST
