"""What all clients share: who they are, what they know of topics, and how they note what happened."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from everlog.model.errors import ErrorCode
from everlog.model.ids import Uuid
from everlog.sim.chance import SimRandom
from everlog.sim.history import Kind, Operation, Outcome, Recorder
from everlog.sim.script import Lost, Script, ask, sleep
from everlog.sim.workloads.routing import Routing
from everlog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

LOADING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors that pass: the request was not carried out, and can be sent again a little later."""


_SHORT_MS = 100
"""Longer pauses are there to miss something, and are long enough."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as clients know it."""

    name: str
    id: Uuid
    partitions: int
    label: str = ""
    """What histories call it, where its name is given to one topic after another: such a topic is meant by
    its id, and requests that can only name it are not sent."""

    @property
    def known_as(self) -> str:
        """What histories call it."""
        return self.label or self.name

    def names(self) -> tuple[str, ...]:
        """Its partitions, as histories call them."""
        return tuple(f"{self.known_as}-{index}" for index in range(self.partitions))

    def versions(self, any_of: tuple[int, ...], by_id_from: int = 13) -> tuple[int, ...]:
        """Those of some versions of a request in which the topic can be meant."""
        return tuple(each for each in any_of if each >= by_id_from) if self.label else any_of


@dataclass(slots=True)
class Setting:
    """The world as all clients of one run see it."""

    recorder: Recorder
    ticks: Callable[[], int]
    """The time of histories."""
    wall: Callable[[], int]
    """The time that records bear, in milliseconds."""
    stopping: Callable[[], bool] = lambda: False
    """Whether clients should come to an end."""
    topics: dict[str, Topic] = field(default_factory=dict[str, Topic])
    """What is there, by what histories call it; in the end all of it is read."""
    ids: dict[str, Uuid] = field(default_factory=dict[str, Uuid])
    """The ids of all topics that ever were, by what histories call them."""
    deleted: set[Uuid] = field(default_factory=set[Uuid])
    """The ids of topics whose deletion was acknowledged: nobody has them in the end."""
    configured: dict[tuple[str, str], str | None] = field(default_factory=dict[tuple[str, str], str | None])
    """What settings of topics must be in the end; None where nobody knows."""
    epoch: Callable[[], int] = lambda: 0
    """Counts what may move the end of a log back; high watermarks are compared within one."""
    session_ms: int = 600
    """How long the members of a group may be silent."""
    drowsy: int = 2
    """How often, of a hundred times, members of groups are away for longer than that."""
    slowness: int = 1
    """How many times longer than usual clients pause: in a cluster every request is the work of several."""
    clustered: bool = False
    """Whether there are several nodes, so that clients have to find the right one."""
    forgetful: bool = False
    """Whether what was acknowledged may be lost, so that clients must expect odd answers."""
    problems: list[str] = field(default_factory=list[str])
    """What a client was told that no sound broker says."""

    def complain(self, who: str, what: str) -> None:
        """Note an answer that a sound broker does not give."""
        self.problems.append(f"{who} at {self.ticks()}: {what}")


class Actor:
    """One client: a name, its own chance, and the setting."""

    def __init__(self, name: str, setting: Setting, chance: SimRandom) -> None:
        self.name = name
        self.setting = setting
        self.chance = chance
        self._values = 0
        self.routing = Routing(setting)

    def value(self) -> str:
        """A value that nobody sent before."""
        self._values += 1
        return f"{self.name}.{self._values}"

    def now(self) -> int:
        """The time of histories."""
        return self.setting.ticks()

    @property
    def stopping(self) -> bool:
        """Whether to come to an end."""
        return self.setting.stopping()

    def note(self, kind: Kind, outcome: Outcome, start: int, **parts: Any) -> None:
        """Record an operation that began at `start` and is over now, as far as anybody knows."""
        end = None if outcome is Outcome.INFO and kind is not Kind.OWN else self.now()
        self.setting.recorder.add(Operation(self.name, kind, outcome, start, end, **parts))

    def pause(self, at_most_ms: int = 50) -> Script[None]:
        """Let a little time pass."""
        slowness = self.setting.slowness if at_most_ms <= _SHORT_MS else 1
        yield from sleep((1 + self.chance.below(at_most_ms)) * slowness)

    def find_coordinator(self, key: str, key_type: int) -> Script[None]:
        """Ask who coordinates until somebody does; 0 asks for a group, 1 for a transactional id."""
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        while not self.stopping:
            try:
                answer = yield from ask(FindCoordinatorResponse, request, 4, "coordinator")
            except Lost:
                yield from self.pause(100)
                continue
            error = answer.coordinators[0].error_code
            if error == ErrorCode.NONE:
                return
            if error not in LOADING:
                self.setting.complain(self.name, f"FindCoordinator of {key} answered {error_name(error)}")
            yield from self.pause(100)


def error_name(code: int) -> str:
    """An error code in words."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def split(partition: str) -> tuple[str, int]:
    """A history's partition as topic and number."""
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


def by_topic(offsets: Mapping[str, int]) -> dict[str, dict[int, int]]:
    """Offsets by partition as offsets by topic and number."""
    found: dict[str, dict[int, int]] = {}
    for partition, offset in offsets.items():
        topic, number = split(partition)
        found.setdefault(topic, {})[number] = offset
    return found
