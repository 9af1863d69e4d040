"""A consumer's membership of its group, carried out: heartbeats, rebalances, commits (C2-C5).

A task of its own takes the member's steps, so heartbeats go on while the application works. What the
application must hear of waits for it to poll.
"""

import asyncio
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, assert_never

from everlog.client.core import surroundings
from everlog.client.core.consumer.settings import CONSUMER, ConsumerSettings
from everlog.client.core.coordinators import CoordinatorKind
from everlog.client.core.errors import Closed, refusal
from everlog.client.core.group.classic_requests import for_version
from everlog.client.core.group.membership_classic import ClassicMember
from everlog.client.core.group.membership_consumer import ConsumerMember
from everlog.client.core.group.membership_steps import (
    Advice,
    Change,
    Describe,
    Member,
    Rest,
    Send,
    Tell,
)
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.core.metadata import ClusterView
from everlog.client.drive.connection import Connection
from everlog.client.drive.group_offsets import GroupOffsets
from everlog.client.drive.link import ClusterLink
from everlog.client.drive.pool import Lane
from everlog.client.drive.topic_watch import TopicWatch
from everlog.model.errors import ConfigError, ErrorCode, EverlogError
from everlog.model.ids import Instant, Uuid, uuid_text
from everlog.model.topics import TopicPartition
from everlog.wire.apis import ApiKey
from everlog.wire.message import Message
from everlog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from everlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_log = logging.getLogger(__name__)

FIRST_PATTERN_VERSION = 1
"""Of ConsumerGroupHeartbeat; before it a pattern is matched by us."""

LEAVE_PATIENCE_S = 5.0
"""How long a member tries to say that it goes. If it cannot, its session runs out."""

HURRIED_LEAVE_S = 0.2
"""The same where the time that it had for its end is over."""


class GroupHooks(Protocol):
    """What the consumer does when its partitions change; called within `poll`, `leave` and `close`."""

    async def revoking(self, places: Sequence[TopicPartition]) -> None:
        """These are about to go: commit if that is automatic, call `on_revoked`, stop reading them."""
        ...

    async def lost(self, places: Sequence[TopicPartition]) -> None:
        """These are gone, and others may read them: call `on_lost`, stop reading them, commit nothing."""
        ...

    async def assigned(self, places: Sequence[TopicPartition]) -> None:
        """These were added: find where to begin, call `on_assigned`, read. Called with none too."""
        ...


class GroupSession:
    """One member of a group, from the first `poll` after `subscribe` until `close`."""

    def __init__(self, link: ClusterLink, settings: ConsumerSettings, hooks: GroupHooks) -> None:
        if settings.group_id is None:
            raise ConfigError("setting group_id=None: expected a name, to subscribe and to commit")
        self._link = link
        self._settings = settings
        self._hooks = hooks
        self._group_id = settings.group_id
        self._is_consumer_protocol = settings.group_protocol == CONSUMER
        self._member: Member = (
            ConsumerMember(settings, new_member_id())
            if self._is_consumer_protocol
            else ClassicMember(settings)
        )
        self._offsets = GroupOffsets(link, settings, self._identity, self._refused)
        self._watch = TopicWatch(link, settings, self._member, self._poke, self._fail)
        self._pattern: str | None = None
        self._is_subscribed = False
        self._task: asyncio.Task[None] | None = None
        self._something_new = asyncio.Event()
        self._wake: asyncio.Event | None = None
        self._failure: EverlogError | None = None
        self._backoff = link.backoff()
        self._polled_at = 0.0
        self._trouble_since: float | None = None
        """Since when nothing has worked."""
        self._connection: Connection | None = None
        """The one on which an answer is waited for."""
        self._is_closed = False

    @property
    def assignment(self) -> Sequence[TopicPartition]:
        """What this member has, in order."""
        return sorted(self._member.owned)

    def subscribe(self, topics: Sequence[str] | None, pattern: str | None) -> None:
        """Want these topics, or those whose whole name a pattern matches.

        The broker matches it (RE2) under the consumer protocol, if it can; else we do (`re`).
        """
        assert (topics is None) != (pattern is None), (topics, pattern)
        compiled = None
        if pattern is not None:
            try:
                compiled = re.compile(pattern)
            except re.error as error:
                # What RE2 takes and `re` does not is the broker's to judge.
                if not self._is_consumer_protocol:
                    raise ConfigError(f"pattern {pattern!r} cannot be read: {error}") from None
        self._is_subscribed = True
        self._pattern = pattern
        if topics is not None:
            self._member.subscribe(topics)
            self._watch.match(None)
        elif self._is_consumer_protocol:
            self._member.subscribe((), pattern)
            self._watch.match(None)
        else:
            self._watch.match(compiled)
        self._poke()

    async def poll(self) -> None:
        """Say that the application lives, and carry out the next step of a rebalance, calling hooks.

        Does not wait for brokers. Raises what the application must hear of.
        """
        if self._is_closed:
            raise Closed("this consumer is closed")
        if self._failure is not None:
            # It is tried again; one whose name another has now is refused again, as long as that is so.
            failure, self._failure = self._failure, None
            self._poke()
            await self._tell_all()
            raise failure
        if not self._is_subscribed:
            return
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._watch.start()
        await self._tell_all()

    def wake_on(self, event: asyncio.Event) -> None:
        """Set this event whenever there is something for `poll` to do.

        That is also when the application has not polled for half of `max_poll_interval_ms`: a long wait for
        records is no sign of death.
        """
        self._wake = event

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets in this member's name; Refused if it is not in the group any more."""
        await self._offsets.commit(offsets)

    async def committed(
        self, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        """The group's offsets, None where none is committed."""
        return await self._offsets.committed(places, self._asker)

    def metadata(self) -> GroupMetadata:
        """In whose name offsets go into a transaction."""
        return self._member.standing if self._is_subscribed else GroupMetadata(self._group_id)

    async def leave(self) -> None:
        """Revoke what is left and leave, as after `unsubscribe`; `subscribe` and `poll` begin anew.

        A static member of the classic protocol does not leave: its partitions wait for it to come back.
        """
        self._is_subscribed = False
        self._member.leave()
        patience = min(LEAVE_PATIENCE_S, self._link.timeout)
        try:
            await self._tell_all()
        except asyncio.CancelledError:
            # The caller's time is over: a broker that is there answers within this, no other is waited for.
            patience = min(HURRIED_LEAVE_S, patience)
            raise
        finally:
            await self._stop()
            with suppress(EverlogError, TimeoutError):
                async with asyncio.timeout(patience):
                    await self._take_leave()
            if self._failure is not None and not self._is_closed:
                self._failure = None

    async def close(self) -> None:
        """Leave, and be of no use any more."""
        if not self._is_closed:
            try:
                await self.leave()
            finally:
                self._is_closed = True

    async def end(self) -> None:
        """Be of no use any more, without leaving."""
        self._is_closed = True
        await self._stop()

    # What the background task does.

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except EverlogError as error:
                self._fail(error)
                while self._failure is not None:
                    await self._wait_for_news(None)

    async def _turn(self) -> None:
        self._mind_the_application()
        step = self._member.step(self._now())
        match step:
            case Send():
                await self._send(step)
            case Describe():
                await self._describe(step)
            case Rest():
                self._wake_application_for_news()
                await self._wait_for_news(step.until)
            case _:
                assert_never(step)

    async def _send(self, step: Send) -> None:
        # Joining takes as long as the slowest other member; it must be able to poll, to make way for it.
        self._wake_application_for_news()
        try:
            answer = await self._ask(step)
        except EverlogError as error:
            self._member.failed(self._now())
            if not error.retriable:
                raise
            self._link.forget_coordinator(CoordinatorKind.GROUP, self._group_id)
            await self._bear(error)
            return
        advice = self._member.take(answer, self._now())
        if advice is Advice.FIND:
            self._link.forget_coordinator(CoordinatorKind.GROUP, self._group_id)
        if advice is Advice.GO_ON:
            self._backoff.reset()
            self._trouble_since = None
        else:
            await self._pause()

    async def _ask(self, step: Send) -> Message:
        broker = await self._link.coordinator(CoordinatorKind.GROUP, self._group_id)
        connection = await self._link.broker(broker.node_id, Lane.MEMBER)
        assert step.request.KEY is not None
        version = connection.versions.pick(ApiKey(step.request.KEY))
        if isinstance(step.request, ConsumerGroupHeartbeatRequest) and version < FIRST_PATTERN_VERSION:
            self._match_here()
            step.request.subscribed_topic_regex = None
        self._connection = connection
        limit = self._link.timeout + step.patience_ms / 1000
        answer = await connection.call(for_version(step.request, version), step.answer_type, limit)
        self._connection = None
        return answer

    def _match_here(self) -> None:
        """Match the pattern ourselves: the coordinator is too old to."""
        if self._pattern is not None:
            try:
                compiled = re.compile(self._pattern)
            except re.error as error:
                raise ConfigError(f"pattern {self._pattern!r} cannot be read: {error}") from None
            self._pattern = None
            self._watch.match(compiled)

    async def _describe(self, step: Describe) -> None:
        wanted = [MetadataRequestTopic(name=name) for name in step.topics]
        wanted += [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in step.topic_ids]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        try:
            view = ClusterView().with_answer(await self._link.ask(request, MetadataResponse))
        except EverlogError as error:
            if not error.retriable:
                raise
            await self._bear(error)
            return
        self._member.described(view)

    async def _bear(self, error: EverlogError) -> None:
        """Wait before another try; the application hears of what lasts too long, and it is tried on."""
        now = self._time()
        if self._trouble_since is None:
            self._trouble_since = now
            _log.warning("group %r cannot be reached, it is tried again: %s", self._group_id, error)
        elif now - self._trouble_since >= self._settings.default_api_timeout_ms / 1000:
            self._trouble_since = now
            raise error
        await self._pause()

    async def _pause(self) -> None:
        await self._link.pause(self._backoff, float("inf"))

    def _mind_the_application(self) -> None:
        """Step aside if it has not polled for too long; call it if it has not for half as long."""
        limit = self._settings.max_poll_interval_ms / 1000
        silence = self._time() - self._polled_at
        if silence >= limit and not self._member.is_away and not self._member.is_gone:
            _log.warning(
                "group %r: no poll for max_poll_interval_ms=%d, so this member leaves; it joins again with "
                "the next poll. Handle records faster, or take fewer at a time (max_poll_records)",
                self._group_id,
                self._settings.max_poll_interval_ms,
            )
            self._member.step_aside()
        elif silence >= limit / 2:
            self._wake_application()

    async def _wait_for_news(self, until: Instant | None) -> None:
        limit = self._settings.max_poll_interval_ms / 1000
        now = self._time()
        deadlines = [at for at in (self._polled_at + limit / 2, self._polled_at + limit) if at > now]
        if until is not None:
            deadlines.append(until / 1000)
        try:
            async with asyncio.timeout_at(min(deadlines, default=None)):
                await self._something_new.wait()
        except TimeoutError:
            pass
        self._something_new.clear()

    # What the application does.

    async def _tell_all(self) -> None:
        while True:
            self._polled_at = self._time()
            if self._member.is_away:  # Since before this poll, or because a listener took too long.
                self._member.come_back()
                self._poke()
            tell = self._member.to_tell()
            if tell is None:
                return
            try:
                await self._tell(tell)
            finally:
                self._member.told(tell)
                self._poke()

    async def _tell(self, tell: Tell) -> None:
        _log.debug("group %r: %s %s", self._group_id, tell.change.value, tell.places)
        match tell.change:
            case Change.REVOKED:
                await self._hooks.revoking(tell.places)
            case Change.LOST:
                await self._hooks.lost(tell.places)
            case Change.ASSIGNED:
                await self._hooks.assigned(tell.places)
            case _:
                assert_never(tell.change)

    async def _stop(self) -> None:
        """End the background task, and what it waits for."""
        await self._watch.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._connection is not None:
            # The coordinator would answer nothing on it before the answer that we do not want any more.
            self._connection.close()
            self._connection = None

    async def _take_leave(self) -> None:
        while not self._member.is_gone:
            step = self._member.step(self._now())
            if not isinstance(step, Send):
                return
            self._member.take(await self._ask(step), self._now())

    def _identity(self) -> GroupMetadata:
        if not self._is_subscribed and self._member.is_gone:
            return GroupMetadata(self._group_id)
        who = self._member.metadata
        if who.generation < 0 or (self._is_consumer_protocol and who.generation == 0):
            said = "this consumer is not in the group now: it joins as it polls"
            raise refusal(ErrorCode.UNKNOWN_MEMBER_ID, said, f"group {self._group_id!r}, commit")
        return who

    def _asker(self) -> GroupMetadata | None:
        who = self._member.metadata
        return who if self._is_consumer_protocol and who.generation > 0 else None

    def _refused(self, code: ErrorCode, who: GroupMetadata) -> None:
        if who == self._member.metadata:  # Else it says nothing about what we are now.
            self._member.take_refusal(code)
            self._poke()

    def _fail(self, error: EverlogError) -> None:
        self._failure = error
        self._wake_application()

    def _poke(self) -> None:
        self._something_new.set()

    def _wake_application(self) -> None:
        if self._wake is not None:
            self._wake.set()

    def _wake_application_for_news(self) -> None:
        if self._member.has_news:
            self._wake_application()

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _now(self) -> Instant:
        return Instant(int(self._time() * 1000))


def new_member_id() -> str:
    """A name that nobody else has, as Kafka's clients make it (KIP-1082)."""
    return uuid_text(Uuid(surroundings.chance.randbytes(16)))
