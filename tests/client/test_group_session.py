"""The session of a group by itself: it calls an application that waits before that counts as dead (C4)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from everlog import TopicPartition
from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.settings import read_settings
from everlog.client.drive.group import GroupSession
from everlog.client.drive.link import ClusterLink
from tests.client.conftest import NewTopic
from tests.client.group_members import PATIENCE_S, WAYS, a_group, on_a_loop


class Hooks:
    """A consumer that only remembers what it has."""

    def __init__(self) -> None:
        self.has: set[TopicPartition] = set()

    async def revoking(self, places: Sequence[TopicPartition]) -> None:
        self.has -= set(places)

    async def lost(self, places: Sequence[TopicPartition]) -> None:
        self.has -= set(places)

    async def assigned(self, places: Sequence[TopicPartition]) -> None:
        self.has |= set(places)


@pytest.mark.parametrize("way", WAYS)
@on_a_loop
async def test_c4_an_application_that_waits_is_called_before_it_counts_as_dead(
    bootstrap: str, new_topic: NewTopic, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(2)
    given: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": a_group(),
        "max_poll_interval_ms": 6_000,
        **WAYS[way],
    }
    settings = read_settings(ConsumerSettings, given)
    link, hooks, called = ClusterLink(settings), Hooks(), asyncio.Event()
    session = GroupSession(link, settings, hooks)
    session.wake_on(called)
    session.subscribe([topic], None)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while len(hooks.has) < 2:
                await session.poll()
                await asyncio.sleep(0.02)
            called.clear()

            await called.wait()

        assert session.assignment == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        assert "max_poll_interval_ms" not in caplog.text
    finally:
        await session.close()
        await link.close()
    assert hooks.has == set()
