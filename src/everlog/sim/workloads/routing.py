"""What one client knows of a cluster: who leads a partition, who coordinates a group or a transactional id.

In a world of one node nothing is asked and every request goes to whoever is there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from everlog.model.errors import ErrorCode
from everlog.sim.script import ANYBODY, TIMEOUT_MS, Lost, Script, ask
from everlog.wire.message import Message
from everlog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from everlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

if TYPE_CHECKING:
    from everlog.sim.workloads.actor import Setting, Topic

M = TypeVar("M", bound=Message)

GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators, as FindCoordinator has them."""

_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_LOOKUP_MS = 1_000


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition, and since which epoch."""

    node: int
    epoch: int


_WHOEVER = Leader(ANYBODY, -1)


class Routing:
    """Finds nodes, and forgets those that turn out to be the wrong ones."""

    def __init__(self, setting: "Setting") -> None:
        self._clustered = setting.clustered
        self._leaders: dict[str, Leader] = {}
        self._newest: dict[str, int] = {}
        """The highest leader epoch heard of: what an older broker says of the partition does not count."""
        self._coordinators: dict[tuple[str, int], int] = {}

    # Leaders.

    def leader(self, topic: "Topic", index: int) -> "Script[Leader | None]":
        """Who leads a partition; None if nobody knows at the moment."""
        if not self._clustered:
            return _WHOEVER
        name = f"{topic.known_as}-{index}"
        if name not in self._leaders:
            yield from self._find_leaders(topic)
        return self._leaders.get(name)

    def forget_leader(self, topic: "Topic", index: int) -> None:
        """Whoever was asked for the partition did not answer well."""
        self._leaders.pop(f"{topic.known_as}-{index}", None)

    def shares(self, topic: "Topic", indexes: Iterable[int]) -> "Script[dict[int, dict[int, int]]]":
        """By node, the partitions that it leads and their epochs; those without a leader are missing."""
        found: dict[int, dict[int, int]] = {}
        for index in indexes:
            leader = yield from self.leader(topic, index)
            if leader is not None:
                found.setdefault(leader.node, {})[index] = leader.epoch
        return found

    def _find_leaders(self, topic: "Topic") -> Script[None]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False
        )
        try:
            answer = yield from ask(MetadataResponse, request, 12, "metadata", _LOOKUP_MS)
        except Lost:
            return
        known = {broker.node_id for broker in answer.brokers}
        for found in answer.topics:
            if topic.label and found.topic_id != topic.id:
                continue  # Another one has its name.
            for part in found.partitions:
                name = f"{topic.known_as}-{part.partition_index}"
                if part.leader_id in known and part.leader_epoch >= self._newest.get(name, -1):
                    self._newest[name] = part.leader_epoch
                    self._leaders[name] = Leader(part.leader_id, part.leader_epoch)

    # Coordinators.

    def ask_coordinator(
        self,
        kind: type[M],
        request: Message,
        version: int,
        key: str,
        key_type: int,
        channel: str,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Script[M]:
        """Ask whoever coordinates; Lost if no answer came, which may be because nobody does."""
        node = ANYBODY
        if self._clustered:
            node = yield from self._coordinator(key, key_type)
        try:
            answer = yield from ask(kind, request, version, channel, timeout_ms, node)
        except Lost:
            self._coordinators.pop((key, key_type), None)
            raise
        if self._clustered and not _ELSEWHERE.isdisjoint(_error_codes(answer)):
            self._coordinators.pop((key, key_type), None)
        return answer

    def _coordinator(self, key: str, key_type: int) -> Script[int]:
        known = self._coordinators.get((key, key_type))
        if known is not None:
            return known
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        answer = yield from ask(FindCoordinatorResponse, request, 4, "metadata", _LOOKUP_MS)
        found = answer.coordinators[0]
        if found.error_code != ErrorCode.NONE:
            raise Lost
        self._coordinators[key, key_type] = found.node_id
        return found.node_id


def _error_codes(part: Any) -> Iterator[int]:
    """Every error code in an answer; `Any` because answers nest as they like."""
    if isinstance(part, list):
        for item in part:  # pyright: ignore[reportUnknownVariableType]
            yield from _error_codes(item)
    elif is_dataclass(part):
        for each in fields(part):
            value = getattr(part, each.name)
            if each.name == "error_code":
                yield value
            elif isinstance(value, list):
                yield from _error_codes(value)
