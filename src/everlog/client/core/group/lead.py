"""What the leader of a classic group does: it shares the group's partitions out (C3)."""

from collections.abc import Iterable, Mapping, Sequence

from everlog.client.core.group.assignors import (
    AssignedMember,
    Assignor,
    Layout,
    RebalanceProtocol,
    hold_back_moving,
)
from everlog.client.core.group.subscription import read_subscription
from everlog.client.core.metadata import ClusterView, Topic
from everlog.model.errors import ErrorCode
from everlog.model.topics import TopicPartition
from everlog.wire.messages.join_group import JoinGroupResponseMember


class GroupLead:
    """One generation of a group as its leader knows it."""

    def __init__(self, members: Iterable[JoinGroupResponseMember], assignor: Assignor) -> None:
        self.shares: Mapping[str, Sequence[TopicPartition]] = {}
        """Who gets what; empty until `see`."""
        self._assignor = assignor
        self._members = {member.member_id: _assigned_member(member) for member in members}
        self._layout: Layout | None = None

    @property
    def topics(self) -> frozenset[str]:
        """All that the members want."""
        return frozenset[str]().union(*(member.topics for member in self._members.values()))

    def see(self, view: ClusterView) -> None:
        """Share out the topics as they are."""
        self._layout = self._layout_in(view)
        shares = self._assignor.assign(self._members, self._layout)
        if RebalanceProtocol.COOPERATIVE in self._assignor.protocols:
            self.shares = hold_back_moving(self._members, shares)
        else:
            self.shares = {member_id: sorted(shares.get(member_id, ())) for member_id in self._members}

    def has_changed(self, view: ClusterView) -> bool:
        """Whether topics are not as they were when they were shared out."""
        layout = self._layout_in(view)
        if self._layout is None:
            # A static leader that came back need not share out, so this is the first that it sees (KIP-814).
            self._layout = layout
        return layout != self._layout

    def _layout_in(self, view: ClusterView) -> Layout:
        return {
            name: _racks(topic, view)
            for name in sorted(self.topics)
            if (topic := view.topics.get(name)) is not None and topic.error is ErrorCode.NONE
        }


def _assigned_member(member: JoinGroupResponseMember) -> AssignedMember:
    said = read_subscription(member.metadata)
    return AssignedMember(
        frozenset(said.topics),
        frozenset(said.owned),
        said.generation,
        member.group_instance_id,
        said.rack,
        said.user_data,
    )


def _racks(topic: Topic, view: ClusterView) -> list[frozenset[str]]:
    return [
        frozenset(
            broker.rack
            for node in topic.partitions[index].replicas
            if (broker := view.brokers.get(node)) is not None and broker.rack is not None
        )
        for index in sorted(topic.partitions)
    ]
