"""Topics that come and go: made, given more partitions, deleted, and made again under the same name.

Histories call each of them by a label of its own, and it is meant by its id alone: a record of one that turns
up in another was never sent there. Of one that is to be deleted nothing is owed any more.
"""

from dataclasses import replace

from everlog.model.errors import ErrorCode
from everlog.model.ids import Uuid
from everlog.sim.history import Kind, Outcome
from everlog.sim.script import Lost, Script, ask
from everlog.sim.workloads.actor import Actor, Topic
from everlog.sim.workloads.appender import IdempotentAppender
from everlog.sim.workloads.operators import Operator
from everlog.sim.workloads.reader import Reader
from everlog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from everlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from everlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

_MOST_PARTITIONS = 4
_VERSION_WITH_IDS = 7
_PATIENCE = 60
"""So often something is tried that has to come about once all is healed."""


class TopicKeeper(Operator):
    """Makes a topic, lets it live for a while, deletes it, and begins again."""

    def script(self, name: str) -> Script[None]:
        """Go on until told to stop; the last topic stays, unless its deletion was asked for."""
        labels: dict[Uuid, str] = {}
        while not self.stopping:
            topic = yield from self._make(name, labels)
            if topic is None:
                continue
            self.setting.ids[topic.label] = topic.id
            self.setting.topics[topic.label] = topic
            for _ in range(self.chance.below(4)):
                yield from self.pause(700)
                if self.chance.happens(40) and topic.partitions < _MOST_PARTITIONS:
                    topic = yield from self._grow(topic)
            if self.stopping:
                return
            del self.setting.topics[topic.label]
            yield from self._delete(topic)

    def _make(self, name: str, labels: dict[Uuid, str]) -> Script[Topic | None]:
        wanted = CreatableTopic(name=name, num_partitions=1 + self.chance.below(2), replication_factor=3)
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=3_000)
        try:
            answer = yield from ask(CreateTopicsResponse, request, _VERSION_WITH_IDS)
        except Lost:
            answer = None
        if answer is None or not self.check(
            f"making {name}",
            answer.topics[0].error_code,
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.INVALID_REPLICATION_FACTOR,
        ):
            # An earlier attempt may have made it, or may yet; whatever has the name is to go first.
            yield from self.pause(100)
            yield from self._clear(name, labels)
            return None
        made = answer.topics[0]
        labels[made.topic_id] = f"{name}.{len(labels) + 1}"
        return Topic(name, made.topic_id, made.num_partitions, labels[made.topic_id])

    def _clear(self, name: str, labels: dict[Uuid, str]) -> Script[None]:
        known = yield from self.look()
        for found in known.topics if known is not None else ():
            if found.name == name and found.error_code == ErrorCode.NONE:
                label = labels.setdefault(found.topic_id, f"{name}.{len(labels) + 1}")
                self.setting.ids[label] = found.topic_id
                yield from self._delete(Topic(name, found.topic_id, len(found.partitions), label))

    def _grow(self, topic: Topic) -> Script[Topic]:
        more = replace(topic, partitions=topic.partitions + 1)
        wanted = CreatePartitionsTopic(name=topic.name, count=more.partitions, assignments=None)
        for _ in range(_PATIENCE):
            request = CreatePartitionsRequest(topics=[wanted], timeout_ms=3_000)
            try:
                answer = yield from ask(CreatePartitionsResponse, request, 3)
            except Lost:
                yield from self.pause(200)
                continue
            error = answer.results[0].error_code
            # An earlier attempt may have added it.
            if error == ErrorCode.INVALID_PARTITIONS or self.check(
                f"another partition of {topic.label}", error, ErrorCode.INVALID_REPLICATION_FACTOR
            ):
                self.setting.topics[topic.label] = more
                return more
            yield from self.pause(200)
        self.setting.complain(self.name, f"{topic.label} did not get another partition")
        return topic

    def _delete(self, topic: Topic) -> Script[None]:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=topic.id)], topic_names=[], timeout_ms=3_000
        )
        for _ in range(_PATIENCE):
            try:
                answer = yield from ask(DeleteTopicsResponse, request, 6)
            except Lost:
                yield from self.pause(200)
                continue
            error = answer.responses[0].error_code
            if error in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                return
            if self.check(f"deleting {topic.label}", error):
                self.setting.deleted.add(topic.id)
                return
            yield from self.pause(200)
        self.setting.complain(self.name, f"{topic.label} could not be deleted")


class TopicGuest(Actor):
    """Writes to whatever topic has a name, and reads from it, whether or not it is about to go."""

    def script(self, name: str) -> Script[None]:
        """Go on until told to stop."""
        writer = IdempotentAppender(f"{self.name} writer", self.setting, self.chance.fork("writer"))
        reader = Reader(f"{self.name} reader", self.setting, self.chance.fork("reader"))
        at = ""
        positions: dict[int, int] = {}
        while not self.stopping:
            topic = next(
                (one for one in self.setting.topics.values() if one.label and one.name == name), None
            )
            if topic is None:
                yield from self.pause(100)
                continue
            if topic.label != at:
                at, positions = topic.label, {}
            yield from writer.append_some(topic, 1 + self.chance.below(3))
            for _ in range(3):
                positions = {index: positions.get(index, 0) for index in range(topic.partitions)}
                yield from self._read(reader, topic, positions)

    def _read(self, reader: Reader, topic: Topic, positions: dict[int, int]) -> Script[None]:
        start = reader.now()
        found = yield from reader.fetch(topic, positions, read_committed=True)
        if found is not None:
            reader.note(Kind.POLL, Outcome.OK, start, polls=found[0], bounds=found[1], read_committed=True)
        yield from self.pause(30)
