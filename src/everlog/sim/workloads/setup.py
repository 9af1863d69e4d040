"""Topics for a run, made and found through the protocol."""

from collections.abc import Mapping

from everlog.model.errors import ErrorCode
from everlog.sim.script import Lost, Script, ask
from everlog.sim.workloads.actor import Actor, Topic
from everlog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from everlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


class Setup(Actor):
    """Makes topics and tells the setting what they are."""

    def script(
        self, wanted: Mapping[str, tuple[int, Mapping[str, str]]], replication: int = 1
    ) -> Script[None]:
        """Make topics with so many partitions and these settings, and find their ids."""
        yield from self._create(wanted, replication)
        yield from self._find(list(wanted))

    def _create(self, wanted: Mapping[str, tuple[int, Mapping[str, str]]], replication: int) -> Script[None]:
        left = dict(wanted)
        while left:
            request = CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=partitions,
                        replication_factor=replication,
                        configs=[
                            CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
                        ],
                    )
                    for name, (partitions, configs) in left.items()
                ],
                timeout_ms=5_000,
            )
            try:
                answer = yield from ask(CreateTopicsResponse, request, 5, timeout_ms=10_000)
            except Lost:
                yield from self.pause(200)
                continue
            for topic in answer.topics:
                if topic.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    del left[topic.name]
                else:
                    # A cluster that has just begun may have too few brokers for a while.
                    passing = topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR and replication > 1
                    assert passing or ErrorCode(topic.error_code).retriable, (topic.name, topic.error_message)
                    yield from self.pause(200)

    def _find(self, names: list[str]) -> Script[None]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        while True:
            try:
                answer = yield from ask(MetadataResponse, request, 12)
            except Lost:
                yield from self.pause(200)
                continue
            if all(topic.error_code == ErrorCode.NONE for topic in answer.topics):
                for topic in answer.topics:
                    assert topic.name is not None
                    found = Topic(topic.name, topic.topic_id, len(topic.partitions))
                    self.setting.topics[topic.name] = found
                    self.setting.ids[topic.name] = found.id
                return
            yield from self.pause(200)
