"""Which features a cluster has, new or of an earlier version."""

from collections.abc import Mapping
from dataclasses import replace

from everlog.controller.brokers import InitializeCluster
from everlog.controller.decisions import Standing
from everlog.metadata.features import GROUP_VERSION, SUPPORTED_FEATURES
from everlog.metadata.image import EMPTY_IMAGE
from everlog.metadata.records import METADATA_LEVEL, METADATA_VERSION
from everlog.sim.chance import SimRandom
from everlog.wire.messages.feature_level_record import FeatureLevelRecord
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
