"""An Admin while its broker is away: it waits for one that it knew, and gives up in time."""

import threading

import pytest

import everlog
from tests.conformance.target import Target


def test_a_call_waits_for_a_broker_that_comes_back(victim: Target) -> None:
    with everlog.Admin(victim.bootstrap, default_api_timeout_ms=120_000) as admin:
        admin.create_topic("kept", 2)
        admin.describe_topics(["kept"])
        admin.list_offsets([everlog.TopicPartition("kept", 0)])
        victim.kill()
        starting = threading.Thread(target=victim.start)
        starting.start()
        try:
            found = admin.wait_for_topics(["kept"], timeout=120)
            offsets = admin.list_offsets([everlog.TopicPartition("kept", 0)])
        finally:
            starting.join()

    assert len(found["kept"].partitions) == 2
    assert [entry is not None and entry.offset for entry in offsets.values()] == [0]


def test_a_broker_that_stays_away_is_given_up_in_time(victim: Target) -> None:
    with everlog.Admin(victim.bootstrap, default_api_timeout_ms=1000) as admin:
        admin.wait_for_topics([], timeout=60)
        admin.list_groups()
        victim.kill()
        with pytest.raises((everlog.TimedOut, everlog.Unreachable), match=victim.bootstrap):
            admin.list_groups()


def test_a_broker_that_hangs_is_given_up_and_used_again_when_it_goes_on(victim: Target) -> None:
    with everlog.Admin(victim.bootstrap, default_api_timeout_ms=1000, request_timeout_ms=500) as admin:
        admin.describe_cluster()
        victim.pause()
        with pytest.raises(everlog.TimedOut):
            admin.describe_cluster()
        victim.resume()
        for _ in range(30):
            try:
                assert admin.describe_cluster().brokers
                break
            except everlog.TimedOut:
                continue  # A slow machine needs more than a second to go on.
        else:
            pytest.fail("the broker goes on, and the Admin does not")
