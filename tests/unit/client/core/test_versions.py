"""The newest version that both sides speak."""

import pytest

from everlog.client.core.errors import Unsupported
from everlog.client.core.versions import BrokerVersions, version_refused
from everlog.wire.apis import APIS, ApiKey
from everlog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse


def broker_with(*ranges: tuple[ApiKey, int, int]) -> BrokerVersions:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in ranges]
    return BrokerVersions.from_response(ApiVersionsResponse(api_keys=keys), "b:9092")


def test_the_smaller_of_both_newest_versions_is_picked() -> None:
    versions = broker_with((ApiKey.METADATA, 0, 9), (ApiKey.FETCH, 4, 99))

    assert versions.pick(ApiKey.METADATA) == 9
    assert versions.pick(ApiKey.FETCH) == APIS[ApiKey.FETCH].advertised_max
    assert versions.pick(ApiKey.FETCH, at_most=12) == 12


def test_an_unstable_version_is_not_used_though_the_broker_has_it() -> None:
    assert broker_with((ApiKey.INIT_PRODUCER_ID, 0, 6)).pick(ApiKey.INIT_PRODUCER_ID) == 5


def test_an_unstable_version_is_used_where_it_is_asked_for() -> None:
    assert broker_with((ApiKey.INIT_PRODUCER_ID, 0, 6)).pick(ApiKey.INIT_PRODUCER_ID, at_most=6) == 6
    assert broker_with((ApiKey.INIT_PRODUCER_ID, 0, 5)).pick(ApiKey.INIT_PRODUCER_ID, at_most=6) == 5


def test_an_api_without_a_common_version_is_unsupported_and_says_both_ranges() -> None:
    versions = broker_with((ApiKey.METADATA, 50, 60))

    assert not versions.serves(ApiKey.METADATA)
    with pytest.raises(Unsupported, match=r"Metadata of broker b:9092.*serves versions 50 to 60"):
        versions.pick(ApiKey.METADATA)
    with pytest.raises(Unsupported, match="does not serve it"):
        versions.pick(ApiKey.FETCH)


def test_an_error_in_place_of_versions_is_told() -> None:
    with pytest.raises(Unsupported, match="INVALID_REQUEST"):
        BrokerVersions.from_response(ApiVersionsResponse(error_code=42), "b:9092")


def test_error_35_in_an_answer_of_any_format_is_seen() -> None:
    assert version_refused(memoryview(b"\0\0\0\1\0\x23" + bytes(4)))
    assert not version_refused(memoryview(b"\0\0\0\1\0\0" + bytes(4)))
    assert not version_refused(memoryview(b"\0\0"))
