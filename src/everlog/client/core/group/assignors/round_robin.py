"""The round-robin assignor: all partitions of all topics in order, to the members in turn."""

from collections.abc import Mapping

from everlog.client.core.group.assignors import EAGER_ONLY, AssignedMember, Layout, in_order
from everlog.model.topics import TopicPartition


class RoundRobinAssignor:
    """`roundrobin`: shares differ by one at most where all subscribe to the same topics."""

    name = "roundrobin"
    protocols = EAGER_ONLY

    def assign(
        self, members: Mapping[str, AssignedMember], topics: Layout
    ) -> dict[str, list[TopicPartition]]:
        """Deal out; a member that does not subscribe to a topic is passed over."""
        order = in_order(members)
        shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        turn = 0
        for topic, racks in sorted(topics.items()):
            if not any(topic in member.topics for member in members.values()):
                continue
            for partition in range(len(racks)):
                while topic not in members[order[turn]].topics:
                    turn = (turn + 1) % len(order)
                shares[order[turn]].append(TopicPartition(topic, partition))
                turn = (turn + 1) % len(order)
        return shares
