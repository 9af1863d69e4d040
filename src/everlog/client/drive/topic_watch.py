"""The topics of a group as they come, grow and go: asked for now and then, matched with a pattern (C2)."""

import asyncio
import logging
import re
from collections.abc import Callable

from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.group.membership_steps import Member
from everlog.client.core.metadata import ClusterView, metadata_request
from everlog.client.drive.link import ClusterLink
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.wire.messages.metadata import MetadataResponse

_log = logging.getLogger(__name__)

MISSING_PERIOD_MS = 1000
"""How soon a topic that is not there is asked for again."""


class TopicWatch:
    """Tells a member how its group's topics are, whenever they may have changed.

    `on_news` is called after each look, and `on_failure` with what an application must hear of.
    """

    def __init__(
        self,
        link: ClusterLink,
        settings: ConsumerSettings,
        member: Member,
        on_news: Callable[[], None],
        on_failure: Callable[[EverlogError], None],
    ) -> None:
        self._link = link
        self._settings = settings
        self._member = member
        self._on_news = on_news
        self._on_failure = on_failure
        self._pattern: re.Pattern[str] | None = None
        self._look_now = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def match(self, pattern: re.Pattern[str] | None) -> None:
        """Subscribe to whatever topics match, or with None leave that to others; and look at once."""
        self._pattern = pattern
        self._look_now.set()

    def start(self) -> None:
        """Begin to look."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def describe(self) -> ClusterView:
        """The topics of the group now, or where a pattern chooses them all topics."""
        names = None if self._pattern is not None else sorted(self._member.group_topics)
        create = self._settings.allow_auto_create_topics and names is not None
        answer = await self._link.ask(metadata_request(names, auto_create=create), MetadataResponse)
        return ClusterView().with_answer(answer)

    async def _run(self) -> None:
        backoff = self._link.backoff()
        while True:
            self._look_now.clear()
            try:
                wait_ms = await self._look()
                backoff.reset()
            except EverlogError as error:
                if not error.retriable:
                    self._on_failure(error)
                _log.debug("the topics of group %r cannot be seen now: %s", self._settings.group_id, error)
                wait_ms = max(1, backoff.next_wait_ms(1.0))
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._look_now.wait()
            except TimeoutError:
                pass

    async def _look(self) -> int:
        """Look once; returns how soon to look again, in milliseconds."""
        pattern = self._pattern
        view = await self.describe()
        if pattern is not None and pattern is self._pattern:
            self._member.subscribe(self._matching(pattern, view))
        self._member.described(view)
        self._on_news()
        denied = [
            topic for topic in view.topics.values() if topic.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ]
        if denied:
            what = f"topic {denied[0].name!r} of group {self._settings.group_id!r} may not be read"
            self._on_failure(Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, what))
        missing = any(
            name not in view.topics or view.topics[name].error is not ErrorCode.NONE
            for name in self._member.group_topics
        )
        age = self._settings.metadata_max_age_ms
        return min(age, MISSING_PERIOD_MS) if missing else age

    def _matching(self, pattern: re.Pattern[str], view: ClusterView) -> list[str]:
        return [
            name
            for name, topic in view.topics.items()
            if pattern.fullmatch(name) and not (topic.is_internal and self._settings.exclude_internal_topics)
        ]
