"""A consumer group as ConsumerGroupDescribe shows it."""

from collections.abc import Sequence

from everlog.coordinator.group.consumer_group import ConsumerGroup
from everlog.coordinator.group.consumer_member import Member, Partitions, by_topic
from everlog.metadata.image import ClusterImage
from everlog.wire.messages.consumer_group_describe import Assignment, DescribedGroup, TopicPartitions
from everlog.wire.messages.consumer_group_describe import Member as ShownMember

_CLASSIC, _CONSUMER = 0, 1


def describe_group(group: ConsumerGroup, image: ClusterImage, assignors: Sequence[str]) -> DescribedGroup:
    """The group with its members, what they have and what they are to have."""
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(assignors),
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: Member, image: ClusterImage) -> ShownMember:
    told = member.subscription
    return ShownMember(
        member_id=member.id,
        instance_id=told.instance_id,
        rack_id=told.rack_id,
        member_epoch=member.epoch,
        client_id=told.client_id,
        client_host=told.client_host,
        subscribed_topic_names=sorted(told.topics),
        subscribed_topic_regex=told.regex,
        assignment=_assignment(member.partitions, image),
        target_assignment=_assignment(group.target(member.id), image),
        member_type=_CLASSIC if member.speaks_classic else _CONSUMER,
    )


def _assignment(partitions: Partitions, image: ClusterImage) -> Assignment:
    # What was deleted has no name any more, and there is nothing of it that anyone could read.
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, topic_name=image.topics_by_id[topic_id].name, partitions=indexes
            )
            for topic_id, indexes in by_topic(partitions).items()
            if topic_id in image.topics_by_id
        ]
    )
