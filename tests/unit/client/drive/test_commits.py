"""Commits of a consumer keep their order, however long one takes (C5)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from everlog.client.core.consumer.positions import Positions
from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.errors import TimedOut, Unreachable
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.client.drive.commits import Commits
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition

ZERO = TopicPartition("orders", 0)


class Session:
    """Takes commits as a coordinator that makes the first one wait."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.go_on = asyncio.Event()
        self.failure: EverlogError | None = None

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.began.append(offsets[ZERO].offset)
        if len(self.began) == 1:
            await self.go_on.wait()
        if self.failure is not None:
            raise self.failure


def at(offset: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {ZERO: OffsetAndMetadata(offset)}


def a_pair(**options: Any) -> tuple[Commits, Session, Positions]:
    session: Any = Session()
    positions = Positions("earliest", lambda: 0, has_group=True)
    positions.add([ZERO])
    commits = Commits(ConsumerSettings(group_id="kitchen", **options), positions, lambda: session)
    return commits, session, positions


def test_c5_a_later_commit_does_not_overtake_one_that_waits() -> None:
    async def work() -> None:
        commits, session, _ = a_pair()
        told: list[int] = []
        commits.commit_later(at(1), lambda made, _: told.append(made[ZERO].offset))
        last = asyncio.create_task(commits.commit(at(2)))
        await asyncio.sleep(0.01)
        assert session.began == [1]
        session.go_on.set()
        await last
        assert (session.began, told, commits.made) == ([1, 2], [1], 2)

    asyncio.run(work())


def test_c5_a_commit_that_takes_too_long_is_told_and_lets_the_next_go() -> None:
    async def work() -> None:
        commits, session, _ = a_pair()
        with pytest.raises(TimedOut, match=r"not committed within 0.01 s"):
            await commits.commit(at(1), timeout=0.01)
        await commits.commit(at(2))
        assert (session.began, commits.made, commits.failed) == ([1, 2], 1, 1)

    asyncio.run(work())


def test_c5_what_did_not_move_is_not_committed_again_unless_it_failed() -> None:
    async def work() -> None:
        commits, session, positions = a_pair(auto_commit_interval_ms=0)
        session.go_on.set()
        positions.seek(ZERO, 7)
        for _ in range(3):
            commits.commit_if_due()
            await commits.finish()
        assert session.began == [7]
        session.failure = Unreachable("away")
        positions.seek(ZERO, 8)
        for _ in range(2):
            commits.commit_if_due()
            await commits.finish()
        assert session.began == [7, 8, 8]

    asyncio.run(work())


def test_c5_without_auto_commit_nothing_is_committed_unasked() -> None:
    async def work() -> None:
        commits, session, positions = a_pair(enable_auto_commit=False, auto_commit_interval_ms=0)
        positions.seek(ZERO, 7)
        commits.commit_if_due()
        await commits.commit_last()
        await commits.finish()
        assert session.began == []

    asyncio.run(work())
