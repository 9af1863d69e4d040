"""Consumers of a group that commit where they are, and pipelines that do so in transactions."""

from everlog.model.errors import ErrorCode
from everlog.sim.chance import SimRandom
from everlog.sim.history import Kind, Outcome, Polled, Sent
from everlog.sim.outcomes import DEFINITE_COMMIT_ERRORS, outcome
from everlog.sim.script import Lost, Script
from everlog.sim.workloads.actor import LOADING, Setting, Topic, by_topic, error_name, split
from everlog.sim.workloads.classic_member import ClassicMember
from everlog.sim.workloads.consumer_member import ConsumerMember
from everlog.sim.workloads.content import with_digest
from everlog.sim.workloads.membership import FENCED, Member, fetch_committed
from everlog.sim.workloads.reader import Reader
from everlog.sim.workloads.routing import GROUP
from everlog.sim.workloads.transactions import Transactions
from everlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

_MOST_IN_ONE = 5
"""Records that one transaction copies: they have to fit into a segment."""


class GroupConsumer(Reader):
    """Reads what its group gives it, from where the group has come to, and commits as it goes."""

    def __init__(
        self, name: str, setting: Setting, chance: SimRandom, group: str, topic: Topic, protocol: str
    ) -> None:
        super().__init__(name, setting, chance)
        self._group = group
        self._topic = topic
        self._member: Member
        if protocol == "classic":
            self._member = ClassicMember(self, group, [topic], setting.session_ms)
        else:
            self._member = ConsumerMember(self, group, [topic], setting.session_ms)
        self._positions: dict[str, int] = {}
        """Where to read on, for partitions that are owned."""
        self._owned: dict[str, int] = {}
        """Since when it has owned what it has positions of: what it lost meanwhile others have worked on."""
        self._uncommitted = False

    def consume(self) -> Script[None]:
        """Consume until told to stop."""
        yield from self.find_coordinator(self._group, 0)
        while not self.stopping:
            yield from self._member.keep()
            if self._member.owned and (yield from self._find_positions()):
                yield from self._work()
            yield from self.pause(60)
            if self.chance.happens(self.setting.drowsy):
                # Away for longer than the group waits.
                yield from self.pause(self.setting.session_ms * 3)
                if self._positions and self._member.owned and self.chance.happens(50):
                    # As one who does not know that it was away: a group that went on must refuse it.
                    yield from self._commit()
        yield from self._member.leave()

    def _find_positions(self) -> Script[bool]:
        """Learn where to go on in partitions that are new; False if we are no member any more."""
        owned = dict(self._member.owned)
        if self._positions and self._owned == owned:
            return True
        found = yield from fetch_committed(self, self._member.membership, [self._topic])
        if isinstance(found, int):
            self._doubt(found)
            return False
        self._positions = {partition: max(found[partition], 0) for partition in sorted(owned)}
        self._owned = owned
        self._uncommitted = False
        self.note(Kind.SUBSCRIBE, Outcome.OK, self.now(), partitions=tuple(sorted(owned)))
        return True

    def _doubt(self, error: int) -> None:
        if error in FENCED:
            self._member.doubt(error)
        self._positions.clear()

    def _work(self) -> Script[None]:
        polls = yield from self._poll()
        self._uncommitted = self._uncommitted or bool(polls)
        if self._uncommitted and self.chance.happens(40):
            yield from self._commit()

    def _poll(self) -> Script[tuple[Polled, ...]]:
        positions = {split(partition)[1]: at for partition, at in self._positions.items()}
        start = self.now()
        found = yield from self.fetch(self._topic, positions, read_committed=True)
        if found is None:
            return ()
        self._positions = {f"{self._topic.name}-{index}": at for index, at in positions.items()}
        self.note(Kind.POLL, Outcome.OK, start, polls=found[0], bounds=found[1])
        return found[0]

    def _commit(self) -> Script[None]:
        membership = self._member.membership
        offsets = dict(self._positions)
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=membership.generation,
            member_id=membership.member,
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=index, committed_offset=at)
                        for index, at in parts.items()
                    ],
                )
                for name, parts in by_topic(offsets).items()
            ],
        )
        start = self.now()
        try:
            version = 8 if membership.protocol == "classic" else 9
            answer = yield from self.routing.ask_coordinator(
                OffsetCommitResponse, request, version, self._group, GROUP, "group"
            )
        except Lost:
            self.note(Kind.COMMIT, Outcome.INFO, start, membership=membership, offsets=offsets)
            return
        errors = {part.error_code for topic in answer.topics for part in topic.partitions}
        error = max(errors)
        known = outcome(error, DEFINITE_COMMIT_ERRORS)
        self.note(Kind.COMMIT, known, start, membership=membership, offsets=offsets, note=error_name(error))
        if error == ErrorCode.NONE:
            self._uncommitted = False
        elif error in FENCED:
            self._doubt(error)
        elif error not in LOADING:
            self.setting.complain(self.name, f"OffsetCommit answered {error_name(error)}")


class Pipeline(GroupConsumer):
    """Writes each record that it reads to another topic once, in the transaction that commits its offset."""

    def process(self, target: Topic, version: int) -> Script[None]:
        """Copy until told to stop."""
        self._target = target
        self._producer = Transactions(self, f"{self._group} {self.name}", version, timeout_ms=1_500)
        yield from self.find_coordinator(self._producer.transactional_id, 1)
        yield from self.consume()

    def _work(self) -> Script[None]:
        if not (yield from self._producer.begin()):
            return
        before = dict(self._positions)
        polls = yield from self._poll()
        if len(polls) > _MOST_IN_ONE:
            # The rest is for later; go back to it.
            polls = polls[:_MOST_IN_ONE]
            self._positions = before | {polled.partition: polled.offset + 1 for polled in polls}
            self.note(Kind.ASSIGN, Outcome.OK, self.now(), partitions=tuple(before))
        if polls:
            yield from self._copy(polls)

    def _copy(self, polls: tuple[Polled, ...]) -> Script[None]:
        start, epochs = self.now(), self._producer.epochs
        membership, offsets = self._member.membership, dict(self._positions)
        records = self._outputs(polls)
        sends: tuple[Sent, ...] = tuple(sent for parts in records.values() for sent in parts)
        given = yield from self._producer.write(self._target, records)
        taken = False
        if given is not None:
            sends = given
            taken = yield from self._producer.commit_offsets(membership, offsets)
        if taken and self.chance.happens(self.setting.drowsy * 4):
            # The group goes on without us, and must not go on from offsets that this may yet change.
            yield from self.pause(self.setting.session_ms * 2)
        ended = yield from self._producer.end(commit=taken and not self.chance.happens(15))
        self.note(
            Kind.TXN,
            ended,
            start,
            sends=sends,
            membership=membership,
            offsets=offsets,
            epochs=epochs,
            note=f"version {self._producer.version} {self._producer.last_error}",
        )
        if ended is not Outcome.OK:
            # Somebody may have done it instead: go on from where the group is.
            self._positions.clear()
            if not taken:
                self._member.doubt(ErrorCode.STALE_MEMBER_EPOCH)

    def _outputs(self, polls: tuple[Polled, ...]) -> dict[int, tuple[Sent, ...]]:
        wall = self.setting.wall()
        records: dict[int, tuple[Sent, ...]] = {}
        for polled in polls:
            index = polled.offset % self._target.partitions
            name = self._target.names()[index]
            source = f"{polled.partition}@{polled.offset}"
            sent = with_digest(name, self.value(), wall, polled.key, source=source)
            records[index] = (*records.get(index, ()), sent)
        return records
