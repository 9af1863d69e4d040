"""Programs that consume with the public consumer, as members of a group."""

import asyncio
from collections.abc import Sequence

from everlog.client.aio.consumer import Consumer
from everlog.client.core.consumer.settings import ConsumerOptions
from everlog.client.core.errors import TimedOut, Unreachable
from everlog.client.core.group.types import RebalanceListener
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord
from everlog.sim.chance import SimRandom
from everlog.sim.history import Kind, Membership, Outcome
from everlog.sim.workloads.actor import LOADING, Setting, Topic
from everlog.sim.workloads.client_program import BOOTSTRAP, ClientProgram, as_polled, is_refused
from everlog.sim.workloads.errands import rack_of
from everlog.sim.workloads.membership import FENCED, Holdings

_AWAY_MS = 1_500
_MAX_POLL_MS = 1_000


class GroupProgram(ClientProgram, RebalanceListener):
    """Reads what its group gives it, and commits as it goes, or has that done."""

    def __init__(
        self, name: str, setting: Setting, chance: SimRandom, group: str, topic: Topic, protocol: str
    ) -> None:
        super().__init__(name, setting, chance)
        self.group = group
        self.topic = topic
        self.protocol = protocol
        self.commits_itself = True
        """Whether it says when to commit; if not its consumer does, and nobody tells the history."""
        self.ends_in_time = False
        """Whether nothing keeps it from the coordinator, so that it is never taken for dead."""
        self._consumer: Consumer | None = None
        self._held = Holdings(self)
        self._changed: set[str] = set()
        """Partitions that came or went since the last poll."""
        self._next: dict[str, int] = {}
        """Behind the last record polled, of partitions that are owned."""
        self._committing: tuple[int, dict[str, int]] | None = None
        self._request_timeout_ms = 0

    @property
    def consumer(self) -> Consumer:
        """The consumer of now."""
        assert self._consumer is not None
        return self._consumer

    @property
    def held(self) -> frozenset[str]:
        """The partitions that it has now."""
        return self._held.partitions

    def membership(self) -> Membership:
        """As whom it would commit now."""
        metadata = self.consumer.group_metadata()
        return Membership(self.group, metadata.member_id, metadata.generation, self.protocol)

    async def run(self) -> None:
        """Consume until told to stop, with one consumer after the other."""
        while not self.stopping:
            options = self.options()
            self._request_timeout_ms = options.get("request_timeout_ms", 0)
            self._consumer = Consumer(BOOTSTRAP, group_id=self.group, **options)
            self.note(Kind.SUBSCRIBE, Outcome.OK, self.now(), partitions=self.topic.names())
            try:
                await self.consumer.subscribe([self.topic.name], listener=self)
                await self.consume()
            except EverlogError as error:
                self.unexpected(error, passes)
            finally:
                await self.consumer.close(3)
                self._held.lose()
                self._next.clear()

    def options(self) -> ConsumerOptions:
        """The settings of the next consumer."""
        pick = self.chance.pick
        options = ConsumerOptions(
            client_id=self.name,
            client_rack=rack_of(self.chance.fork("rack").below(3)),
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=not self.commits_itself,
            auto_commit_interval_ms=pick((0, 50, 300)),
            max_poll_records=pick((1, 7, 500)),
            max_poll_interval_ms=_MAX_POLL_MS,
            max_partition_fetch_bytes=pick((1, 500, 1 << 20)),
            fetch_max_wait_ms=pick((10, 100, 500)),
            request_timeout_ms=pick((300, 1_000, 2_000)),
            default_api_timeout_ms=3_000,
            retry_backoff_ms=20,
            retry_backoff_max_ms=200,
            socket_connection_setup_timeout_ms=1_000,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=200,
        )
        if self.protocol == "classic":
            options["group_protocol"] = "classic"
            options["session_timeout_ms"] = self.setting.session_ms
            options["heartbeat_interval_ms"] = 100
        else:
            options["group_protocol"] = "consumer"
        return options

    def give_up(self) -> None:
        """Note what is under way."""
        self._held.lose()
        if self._committing is not None:
            start, offsets = self._committing
            self.note(Kind.COMMIT, Outcome.INFO, start, membership=self.membership(), offsets=offsets)

    async def consume(self) -> None:
        """Poll for a while."""
        for _ in range(10 + self.chance.below(100)):
            if self.stopping:
                return
            await self.poll()
            if self._next and self.commits_itself and self.chance.happens(40):
                await self.commit()
            if self.chance.happens(2):
                # Away for longer than the group waits.
                await asyncio.sleep(self.chance.below(_AWAY_MS) / 1000)

    async def poll(self) -> list[ConsumerRecord]:
        """Poll once, and note it."""
        start = self.now()
        records = await self.consumer.poll(self.chance.below(200) / 1000)
        polls = tuple(as_polled(record) for record in records)
        changed, self._changed = tuple(sorted(self._changed)), set()
        if polls or changed:
            self.note(
                Kind.POLL,
                Outcome.OK,
                start,
                polls=polls,
                rebalanced=changed,
                membership=Membership(self.group, protocol=self.protocol),
            )
        foreign = {each.partition for each in polls} - self._held.partitions
        if foreign:
            self.complain(f"polled from {sorted(foreign)}, which it does not have")
        self._next.update({each.partition: each.offset + 1 for each in polls})
        return records

    async def commit(self) -> None:
        """Commit what was polled, by positions or by offsets given."""
        offsets, start = dict(self._next), self.now()
        self._committing = start, offsets
        places = {place_of(name): offset for name, offset in offsets.items()}
        known = Outcome.INFO
        try:
            await self.consumer.commit(None if self.chance.happens(50) else places)
            known = Outcome.OK
        except EverlogError as error:
            self.unexpected(error, passes)
        self._committing = None
        # Consumers send again what was not answered in time, and nothing calls the first copy back.
        repeated = known is Outcome.OK and self.now() - start >= self._request_timeout_ms * 1000
        whose = self.membership()
        self.note(Kind.COMMIT, known, start, membership=whose, offsets=offsets, repeated=repeated)

    # What the consumer tells.

    async def on_assigned(self, places: Sequence[TopicPartition]) -> None:
        """Take partitions over."""
        names = frozenset(str(place) for place in places)
        if again := names & self._held.partitions:
            self.complain(f"was given {sorted(again)} again")
        self._changed |= names
        membership = self.membership()
        self.note(Kind.JOIN, Outcome.OK, self.now(), membership=membership)
        self._held.take(names, membership)
        if places and self.commits_itself and self.chance.happens(30):
            await self._ask(places, membership)

    async def _ask(self, places: Sequence[TopicPartition], membership: Membership) -> None:
        start = self.now()
        try:
            found = await self.consumer.committed(*places)
        except EverlogError as error:
            self.unexpected(error, passes)
            return
        offsets = {str(place): at.offset for place, at in found.items() if at is not None}
        self.note(Kind.COMMITTED, Outcome.OK, start, membership=membership, offsets=offsets)

    async def on_revoked(self, places: Sequence[TopicPartition]) -> None:
        """Give partitions up."""
        if self._next and self.commits_itself and self.chance.happens(50):
            await self.commit()
        self._release(places, in_time=self.ends_in_time)

    async def on_lost(self, places: Sequence[TopicPartition]) -> None:
        """Know that they are gone."""
        self._release(places, in_time=False)

    def _release(self, places: Sequence[TopicPartition], *, in_time: bool) -> None:
        names = frozenset(str(place) for place in places)
        if unknown := names - self._held.partitions:
            self.complain(f"gave up {sorted(unknown)}, which it did not have")
        self._changed |= names
        self._held.release(names, in_time=in_time)
        for name in names:
            self._next.pop(name, None)


def place_of(name: str) -> TopicPartition:
    """A history's partition as clients know it."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def passes(error: EverlogError) -> bool:
    """Whether a cut connection, a restart or a rebalance explains an error."""
    return isinstance(error, TimedOut | Unreachable) or is_refused(error, FENCED | LOADING)
