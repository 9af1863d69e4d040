"""Draft: a consumer group as a decision would leave it, and the records that make it so.

A decision changes nothing; it writes its records to a draft, which takes them in by the same `apply` as the
group itself will. So the steps of one decision build on each other, and what the member is told is what
replay makes of the records.
"""

from collections.abc import Iterable, Sequence

from everlog.coordinator.group import consumer_records as records
from everlog.coordinator.group.assignors import Subscriber
from everlog.coordinator.group.assignors.table import ASSIGNORS
from everlog.coordinator.group.consumer_group import ConsumerGroup
from everlog.coordinator.group.consumer_member import NO_PARTITIONS, Member, Partitions, Subscription
from everlog.coordinator.group.consumer_reconcile import reconcile
from everlog.coordinator.group.consumer_topics import TopicView
from everlog.coordinator.records import CoordinatorRecord
from everlog.model.dataclass import dataclass
from everlog.model.ids import Timestamp, Uuid


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What decisions depend on besides the group."""

    topics: TopicView
    wall: Timestamp
    assignors: Sequence[str]
    """The assignors that may be used; the first is used where nobody asks for one."""


class Draft:
    """A group and what is about to become of it."""

    def __init__(self, group: ConsumerGroup, given: Circumstances) -> None:
        self._group = group
        self._own = False
        self._given = given
        self.records: list[CoordinatorRecord] = []

    @property
    def group(self) -> ConsumerGroup:
        """The group with all records so far."""
        return self._group

    def write(self, written: Iterable[CoordinatorRecord]) -> None:
        """Add records, and see the group with them from now on."""
        if not self._own:
            self._group, self._own = self._group.copy(), True
        for record in written:
            self.records.append(record)
            self._group.apply(record)

    def precede(self, record: CoordinatorRecord) -> None:
        """Begin with a record that concerns what the group was before, and not the group as it is."""
        assert not self.records, self.records
        self.records.append(record)

    def subscribe(self, member_id: str, told: Subscription) -> bool:
        """Take in what a member told of itself, and say whether targets are to be worked out anew."""
        old = self._group.members.get(member_id)
        if old is not None and old.subscription == told:
            return False
        assignor = self._preferred_assignor()
        self.write([records.subscription(self._group.id, member_id, told)])
        return (
            old is None
            or old.subscription.topics != told.topics
            or old.subscription.regex != told.regex
            or self._preferred_assignor() != assignor
        )

    def remove(self, member_ids: Iterable[str]) -> None:
        """Let members go; what they had is free."""
        for member_id in member_ids:
            self.write(records.no_member(self._group.id, member_id))

    def resolve_regexes(self) -> bool:
        """Look up patterns that are new or whose topics are others now, drop those that nobody has.

        Return whether that changes what the group subscribes to; Refused if a pattern is none.
        """
        group, topics = self._group, self._given.topics
        changed = False
        used = group.used_regexes()
        for pattern in sorted(used):
            found = topics.matching(pattern)
            resolved = group.regexes.get(pattern)
            if resolved is None or resolved.topics != found:
                self.write([records.regex(group.id, pattern, found, topics.version, self._given.wall)])
                changed = True
        for pattern in sorted(group.regexes.keys() - used):
            self.write([records.no_regex(group.id, pattern)])
            changed = True
        return changed

    def raise_epoch(self, *, changed: bool) -> None:
        """Raise the group's epoch if something has changed, or the topics that it reads have."""
        group = self._group
        metadata_hash = self._given.topics.hash(group.subscribed_topics)
        if changed or metadata_hash != group.metadata_hash:
            self.write([records.group_epoch(group.id, group.epoch + 1, metadata_hash)])

    def update_targets(self) -> None:
        """Work out who is to have what, if that was not done for this epoch."""
        group = self._group
        if group.target_epoch >= group.epoch:
            return
        for member_id, target in self._assign().items():
            if member_id not in group.targets or group.targets[member_id] != target:
                self.write([records.target(group.id, member_id, target)])
        self.write([records.target_epoch(group.id, group.epoch, self._given.wall)])

    def reconcile(self, member_id: str, owned: Partitions | None) -> Member:
        """Take a member one step towards its target, and return it."""
        group = self._group
        member = group.members[member_id]
        moved = reconcile(
            member, group.target(member_id), group.target_epoch, owned, group.is_free_for(member_id)
        )
        if moved is not member:
            self.write([records.current(group.id, moved)])
        return self._group.members[member_id]

    def _preferred_assignor(self) -> str:
        return self._group.preferred_assignor(self._given.assignors)

    def _assign(self) -> dict[str, Partitions]:
        group = self._group
        topics = self._given.topics.existing(group.subscribed_topics)
        ids = {topic.name: topic.id for topic in topics}
        members = {
            member_id: Subscriber(
                topics=_ids_of(group.topics_of(member.subscription), ids),
                had=group.targets.get(member_id, NO_PARTITIONS),
                instance_id=member.instance_id,
            )
            for member_id, member in group.members.items()
        }
        counts = {topic.id: len(topic.partitions) for topic in topics}
        return ASSIGNORS[self._preferred_assignor()](members, counts)


def _ids_of(names: frozenset[str], ids: dict[str, Uuid]) -> frozenset[Uuid]:
    return frozenset(ids[name] for name in names if name in ids)
