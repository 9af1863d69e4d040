"""Operators: they change a cluster while others work on it, and say what it must be like in the end.

What they ask for may come to nothing at any time, as brokers come and go: they look again and go on. What was
acknowledged must be so in the end; `Operators.final` in `errands.py` looks whether it is.
"""

from everlog.model.errors import ErrorCode
from everlog.sim.script import Lost, Script, ask
from everlog.sim.workloads.actor import Actor, error_name
from everlog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from everlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from everlog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from everlog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from everlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from everlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from everlog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

_SET = 0
_TOPIC = 2
_FEWEST_VOTERS = 2
_METADATA = "__cluster_metadata"
_SETTINGS = {
    "internal.segment.bytes": ("900", "3000", "20000", "1048576"),
    "index.interval.bytes": ("100", "200", "4096"),
    "max.message.bytes": ("1048588", "2097152"),
}
"""What may change of a topic without anybody who writes to it or reads from it having to know."""


class Operator(Actor):
    """One that asks a cluster for changes."""

    def look(self) -> Script[MetadataResponse | None]:
        """What any broker knows of all topics and brokers; None if none says."""
        try:
            return (yield from ask(MetadataResponse, MetadataRequest(topics=None), 12, "metadata"))
        except Lost:
            return None

    def check(self, what: str, error: int, *expected: ErrorCode) -> bool:
        """Whether it was done; complains of an error that nothing here can have brought about."""
        if error in expected or error == ErrorCode.NONE or ErrorCode(error).retriable:
            return error == ErrorCode.NONE
        self.setting.complain(self.name, f"{what} answered {error_name(error)}")
        return False


class Mover(Operator):
    """Gives partitions other replicas, more or fewer of them, and at times takes that back on the way."""

    def script(self) -> Script[None]:
        """Move until told to stop."""
        while not self.stopping:
            yield from self.pause(800)
            known = yield from self.look()
            if known is not None and known.topics:
                yield from self.move(known)

    def move(self, known: MetadataResponse) -> Script[None]:
        """Ask for one partition to be elsewhere, or for what moves to stay."""
        topic = self.chance.pick(known.topics)
        if topic.partitions and topic.name is not None:
            part = self.chance.pick(topic.partitions)
            replicas = None if self.chance.happens(15) else self._choose(known, part)
            yield from self.reassign(topic, part.partition_index, replicas)

    def _choose(self, known: MetadataResponse, part: MetadataResponsePartition) -> list[int]:
        brokers = sorted({broker.node_id for broker in known.brokers} | set(part.replica_nodes))
        chosen: list[int] = []
        for _ in range(min(self.chance.pick((2, 3, 3, 3)), len(brokers))):
            chosen.append(self.chance.pick([broker for broker in brokers if broker not in chosen]))
        return chosen

    def reassign(self, topic: MetadataResponseTopic, index: int, replicas: list[int] | None) -> Script[None]:
        """Ask for a partition to have these replicas; with None, for its move to be taken back."""
        assert topic.name is not None
        part = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=3_000, topics=[ReassignableTopic(name=topic.name, partitions=[part])]
        )
        try:
            answer = yield from ask(AlterPartitionReassignmentsResponse, request, 1)
        except Lost:
            return
        told = answer.responses[0].partitions[0].error_code if answer.responses else answer.error_code
        # The topic may be gone by now, nothing may move any more, and a broker may not be there.
        self.check(
            f"a move of {topic.name}-{index} to {replicas}",
            told,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )


class Leaver(Mover):
    """Empties a broker, as one does before it is taken away, and then another."""

    def script(self) -> Script[None]:
        """Empty brokers until told to stop."""
        while not self.stopping:
            yield from self.pause(600)
            known = yield from self.look()
            if known is None or not known.brokers:
                continue
            leaving = self.chance.pick(sorted(broker.node_id for broker in known.brokers))
            for topic in known.topics:
                for part in topic.partitions:
                    if leaving in part.replica_nodes and not self.stopping:
                        yield from self._replace(known, topic, part, leaving)

    def _replace(
        self,
        known: MetadataResponse,
        topic: MetadataResponseTopic,
        part: MetadataResponsePartition,
        leaving: int,
    ) -> Script[None]:
        kept = [broker for broker in part.replica_nodes if broker != leaving]
        free = sorted({broker.node_id for broker in known.brokers} - set(part.replica_nodes))
        if free and topic.name is not None:
            yield from self.reassign(topic, part.partition_index, [*kept, self.chance.pick(free)])


class Flipper(Mover):
    """Has a partition led by one after another, faster than they follow each other; all stay in sync."""

    def script(self) -> Script[None]:
        """Change who leads until told to stop."""
        while not self.stopping:
            yield from self.pause(60)
            known = yield from self.look()
            topics = [one for one in known.topics if one.name == "log"] if known is not None else []
            if not topics or not topics[0].partitions:
                continue
            topic, part = topics[0], self.chance.pick(topics[0].partitions)
            turned = [*part.replica_nodes[1:], *part.replica_nodes[:1]]
            yield from self.reassign(topic, part.partition_index, turned)
            wanted = [TopicPartitions(topic="log", partitions=[part.partition_index])]
            request = ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=1_000)
            try:
                yield from ask(ElectLeadersResponse, request, 2)
            except Lost:
                continue


class Elector(Operator):
    """Has those lead that are meant to."""

    def script(self) -> Script[None]:
        """Elect until told to stop."""
        while not self.stopping:
            yield from self.pause(600)
            request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=3_000)
            try:
                answer = yield from ask(ElectLeadersResponse, request, 2)
            except Lost:
                continue
            self.check("ElectLeaders", answer.error_code)
            for topic in answer.replica_election_results:
                for part in topic.partition_result:
                    self.check(
                        f"the election of {topic.topic}-{part.partition_id}",
                        part.error_code,
                        ErrorCode.ELECTION_NOT_NEEDED,
                        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                    )


class Configurer(Operator):
    """Changes settings of a topic, and remembers what they must be."""

    def script(self, topic: str) -> Script[None]:
        """Change settings until told to stop."""
        while not self.stopping:
            yield from self.pause(500)
            key = self.chance.pick(tuple(_SETTINGS))
            value = self.chance.pick(_SETTINGS[key])
            config = AlterableConfig(name=key, config_operation=_SET, value=value)
            resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=topic, configs=[config])
            try:
                answer = yield from ask(
                    IncrementalAlterConfigsResponse, IncrementalAlterConfigsRequest(resources=[resource]), 1
                )
            except Lost:
                # It may come about at any later time.
                self.setting.configured[topic, key] = None
                continue
            if self.check(f"a change of {key} of {topic}", answer.responses[0].error_code):
                if self.setting.configured.get((topic, key), "") is not None:
                    self.setting.configured[topic, key] = value
            else:
                self.setting.configured[topic, key] = None


class Elder(Operator):
    """Makes nodes voters of the quorum, and takes that from others."""

    def script(self, controllers_port: int) -> Script[None]:
        """Change the voters until told to stop."""
        asked = RequestTopicData(topic_name=_METADATA, partitions=[RequestPartitionData(partition_index=0)])
        while not self.stopping:
            yield from self.pause(900)
            try:
                answer = yield from ask(DescribeQuorumResponse, DescribeQuorumRequest(topics=[asked]), 2)
            except Lost:
                continue
            if answer.error_code == ErrorCode.NONE and answer.topics:
                part = answer.topics[0].partitions[0]
                if part.error_code == ErrorCode.NONE:
                    yield from self._change(part.current_voters, part.observers, controllers_port)

    def _change(self, voters: list[ReplicaState], observers: list[ReplicaState], port: int) -> Script[None]:
        try:
            if observers and (len(voters) <= _FEWEST_VOTERS or self.chance.happens(60)):
                error = yield from self._add(self.chance.pick(observers), port)
            elif len(voters) > _FEWEST_VOTERS:
                error = yield from self._remove(self.chance.pick(voters))
            else:
                return
        except Lost:
            return
        self.check("a change of the voters", error, ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND)

    def _add(self, replica: ReplicaState, port: int) -> Script[int]:
        listener = Listener(name="CONTROLLER", host=f"node{replica.replica_id}", port=port)
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=2_000,
            voter_id=replica.replica_id,
            voter_directory_id=replica.replica_directory_id,
            listeners=[listener],
        )
        return (yield from ask(AddRaftVoterResponse, request, 1)).error_code

    def _remove(self, replica: ReplicaState) -> Script[int]:
        request = RemoveRaftVoterRequest(
            cluster_id=None,
            voter_id=replica.replica_id,
            voter_directory_id=replica.replica_directory_id,
        )
        return (yield from ask(RemoveRaftVoterResponse, request, 0)).error_code
