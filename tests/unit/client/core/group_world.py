"""Members of a group and the broker's own coordinator in one process, on simulated time, from a seed.

Members are the cores that a consumer runs. What moves between them and the broker are frames, in any version.
A seeded chooser decides who does what next: sends, hears, tells the application, loses a connection, dies.
"""

import random
from collections.abc import Callable, Collection
from typing import Any

from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.group.classic_requests import for_version
from everlog.client.core.group.membership_classic import ClassicMember
from everlog.client.core.group.membership_consumer import ConsumerMember
from everlog.client.core.group.membership_steps import Advice, Change, Describe, Rest, Send, Tell
from everlog.client.core.metadata import ClusterView
from everlog.client.core.settings import read_settings
from everlog.model.ids import Instant
from everlog.model.topics import TopicPartition
from everlog.wire.apis import APIS, ApiKey
from everlog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from everlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.unit.broker.group_calls import find_coordinator
from tests.unit.broker.handlers.nodes import SimNode

GROUP = "g"
HEARTBEAT_MS = 500
SESSION_MS = 10_000
METADATA_VERSION = 12
MANY_TURNS = 500
"""More steps than anybody has to take at one moment."""


class Actor:
    """One member, its connection, and its application."""

    def __init__(self, world: "GroupWorld", name: str, options: dict[str, Any]) -> None:
        given = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "max_poll_interval_ms": 600_000,
            "bootstrap_servers": "a:1",
            **options,
        }
        settings = read_settings(ConsumerSettings, given)
        self.name = name
        self.world = world
        self.is_classic = settings.group_protocol == "classic"
        self.member: ClassicMember | ConsumerMember = (
            ClassicMember(settings) if self.is_classic else ConsumerMember(settings, name)
        )
        self.history: list[Tell] = []
        """What the application was told, in order."""
        self.telling: Tell | None = None
        self.is_dead = False
        self.turns = 0
        """Steps since time last passed."""
        self._client = world.node.client()
        self._asked: Send | None = None
        self._under_way: Callable[[], None] | None = None
        """Lets the broker have what was sent last."""

    @property
    def reads(self) -> frozenset[TopicPartition]:
        """What the application reads, or may: also what it is being told of.

        One whose member has stepped aside, as it does not poll, cannot be helped until it hears of it.
        """
        if self.member.is_away or (self.telling and self.telling.change is Change.LOST):
            return frozenset()
        more = self.telling.places if self.telling and self.telling.change is Change.ASSIGNED else ()
        return self.member.owned | frozenset(more)

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is owed to it."""
        return self._asked is not None and not self._client.frames

    def turn(self) -> bool:
        """Take one step, let it arrive, or take its answer; False if there is nothing to do."""
        self.turns += 1
        assert self.turns < MANY_TURNS, f"{self.name} does not come to rest"
        if self._under_way is not None:
            self._under_way()
            self._under_way = None
            return True
        if self._asked is not None:
            return self._hear()
        step = self.member.step(self.world.now)
        match step:
            case Rest():
                return False
            case Describe():
                self.member.described(self.world.describe(step))
            case Send():
                self._send(step)
        return True

    def _send(self, step: Send) -> None:
        assert step.request.KEY is not None
        version = self.world.version(ApiKey(step.request.KEY))
        self._asked = step
        client, request = self._client, for_version(step.request, version)

        def arrive() -> None:
            client.ask(request, version)
            self.world.node.aside.run_all()

        self._under_way = arrive

    def _hear(self) -> bool:
        assert self._asked is not None
        if not self._client.frames:
            return False
        answer = self._client.take(self._asked.answer_type)
        self._asked = None
        advice = self.member.take(answer, self.world.now)
        assert advice is not Advice.FIND, answer
        return True

    def lose_connection(self) -> None:
        """What was sent may have been carried out, or will be at any later time; no answer comes."""
        if self._asked is not None:
            if self._under_way is None:
                self._client.session.closed()
            else:
                self.world.late.append(self._under_way)
            self._client = self.world.node.client()
            self._asked = self._under_way = None
            self.member.failed(self.world.now)

    def poll(self) -> bool:
        """Let the application hear of something, or finish with what it has heard of."""
        told = self.telling
        if told is not None:
            self.history.append(told)
            self.member.told(told)
        # At once, as in one poll: between the two the application gets no records.
        self.member.come_back()
        self.telling = self.member.to_tell()
        return told is not None or self.telling is not None

    def leave(self) -> None:
        """Go, unless the application is busy; it hears at once what it is to give up, or has lost."""
        if self.telling is None:
            self.member.leave()
            self.poll()

    def die(self) -> None:
        """As by `kill -9`: nothing more is read or sent."""
        self.is_dead = True
        self._client.session.closed()


class GroupWorld:
    """A broker with topics, and the members of one group."""

    def __init__(self, seed: int, topics: dict[str, int], *, oldest: Collection[ApiKey] = ()) -> None:
        self.chance = random.Random(seed)
        self.node = SimNode(
            group_initial_rebalance_delay_ms="0",
            group_min_session_timeout_ms="1",
            group_consumer_heartbeat_interval_ms=str(HEARTBEAT_MS),
            group_consumer_min_heartbeat_interval_ms="1",
            group_consumer_session_timeout_ms=str(SESSION_MS),
            group_consumer_min_session_timeout_ms="1",
            offsets_topic_num_partitions="1",
        )
        find_coordinator(self.node)
        self.topics = dict(topics)
        for name, count in topics.items():
            self.node.create_topic(name, count)
        self.actors: list[Actor] = []
        self.late: list[Callable[[], None]] = []
        """Let the broker have what was sent on connections that their members have given up since."""
        self._oldest = oldest

    @property
    def now(self) -> Instant:
        return self.node.clock.now()

    @property
    def alive(self) -> list[Actor]:
        return [actor for actor in self.actors if not actor.is_dead]

    def version(self, api: ApiKey) -> int:
        """The version of a request: the newest, or for some APIs the oldest."""
        return APIS[api].min_version if api in self._oldest else APIS[api].advertised_max

    def join(self, topics: Collection[str], **options: Any) -> Actor:
        """A new member."""
        actor = Actor(self, f"m{len(self.actors)}", options)
        self.actors.append(actor)
        actor.member.subscribe(topics)
        return actor

    def describe(self, step: Describe | None = None) -> ClusterView:
        """Topics as the broker describes them: those of a step, or all."""
        wanted = None
        if step is not None:
            wanted = [MetadataRequestTopic(name=name) for name in step.topics]
            wanted += [MetadataRequestTopic(name=None, topic_id=one) for one in step.topic_ids]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        return ClusterView().with_answer(self.node.ask(request, METADATA_VERSION, MetadataResponse))

    def grow(self, topic: str, count: int) -> None:
        """Give a topic more partitions, and let everybody see it."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count, assignments=None)]
        )
        answer = self.node.ask(request, 3, CreatePartitionsResponse)
        assert [one.error_code for one in answer.results] == [0], answer.results
        self.topics[topic] = count

    def pass_time(self, ms: int) -> None:
        """Let time pass, in steps that are short beside a session, with everybody's heartbeats on the way."""
        while ms > 0:
            step = min(ms, HEARTBEAT_MS // 2)
            self.node.pass_time(step)
            self.node.aside.run_all()
            ms -= step
            for actor in self.alive:
                actor.turns = 0
                while actor.turn():
                    pass
            self.check()

    def check(self) -> None:
        """No partition has two readers."""
        readers: dict[TopicPartition, str] = {}
        for actor in self.alive:
            for place in actor.reads:
                assert place not in readers, f"{place}: {readers[place]} and {actor.name}"
                readers[place] = actor.name

    def settle(self, is_settled: Callable[[], bool], limit_ms: int = 200_000) -> None:
        """Let everybody do all they have to until something is so."""
        deadline = self.now + limit_ms
        while True:
            busy = True
            while busy:
                done = [actor.turn() | actor.poll() for actor in self.alive]
                busy = any(done)
                self.check()
            if is_settled() and not any(actor.is_waiting for actor in self.alive):
                return
            assert self.now < deadline, [
                (actor.name, actor.member.phase, actor.reads) for actor in self.alive
            ]
            self.pass_time(HEARTBEAT_MS)

    def all_read(self) -> bool:
        """Whether everything that somebody wants is read."""
        wanted = {topic for actor in self.alive for topic in actor.member.group_topics}
        everything = {
            TopicPartition(topic, index) for topic in wanted for index in range(self.topics.get(topic, 0))
        }
        return {place for actor in self.alive for place in actor.reads} == everything
