"""Topics that a broker has made for itself or for its clients: internal ones, and those made at first use.

Whichever controller is active makes them. A topic counts as made once this broker knows of it as well: what
is answered then can name its leaders.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from everlog.broker.neighbours import told_code
from everlog.controller.decisions import Refusal
from everlog.controller.topics import NewTopic
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Instant
from everlog.wire.message import Message
from everlog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

TIMEOUT_MS = 2_000
"""How long a controller may take, and then this broker until it has heard of what was made.

Answers leave a connection in order, so whoever waits here holds up all that its client asked for afterwards.
"""
_VERSION = 7

Outcomes = dict[str, Refusal | None]
"""For each topic None if it is there, or why it is not."""
Done = Callable[[Outcomes], None]


class _Unheard:
    """Topics that were made and that this broker has not heard of yet."""

    __slots__ = ("deadline", "done", "missing", "outcomes")

    def __init__(self, outcomes: Outcomes, missing: set[str], deadline: Instant, done: Done) -> None:
        self.outcomes = outcomes
        self.missing = missing
        self.deadline = deadline
        self.done = done


class TopicMaker:
    """Has topics made, and knows who waits for them."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._unheard: list[_Unheard] = []

    def make(self, topics: Sequence[NewTopic], done: Done) -> None:
        """Have topics made; `done` gets what became of each, once all that were made are known here.

        One that somebody else has made meanwhile is as good.
        """
        names = [topic.name for topic in topics]
        request = CreateTopicsRequest(topics=[_creatable(topic) for topic in topics], timeout_ms=TIMEOUT_MS)

        def made(answer: Message | Refused) -> None:
            if isinstance(answer, Refused):
                done(dict.fromkeys(names, Refusal.of(answer)))
                return
            assert isinstance(answer, CreateTopicsResponse), answer
            told = {
                topic.name: Refusal(told_code(topic.error_code), topic.error_message or "")
                for topic in answer.topics
            }
            self._await_image({name: _outcome(name, told.get(name)) for name in names}, done)

        self._broker.channel.ask(request, _VERSION, made, TIMEOUT_MS)

    def image_changed(self) -> None:
        """Tell those whose topics are all there."""
        for unheard in list(self._unheard):
            unheard.missing = {name for name in unheard.missing if name not in self._broker.image.topics}
            if not unheard.missing:
                self._tell(unheard)

    def tick(self, now: Instant) -> None:
        """Tell those who have waited long enough."""
        for unheard in list(self._unheard):
            if unheard.deadline <= now:
                for name in unheard.missing:
                    unheard.outcomes[name] = Refusal(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"{name} was made, and broker {self._broker.node_id} has not heard of it in time",
                    )
                self._tell(unheard)
            else:
                self._broker.alarm.ring_by(unheard.deadline)

    def _await_image(self, outcomes: Outcomes, done: Done) -> None:
        known = self._broker.image.topics
        missing = {name for name, refusal in outcomes.items() if refusal is None and name not in known}
        if not missing:
            done(outcomes)
            return
        deadline = Instant(self._broker.clock.now() + TIMEOUT_MS)
        self._unheard.append(_Unheard(outcomes, missing, deadline, done))
        self._broker.alarm.ring_by(deadline)

    def _tell(self, unheard: _Unheard) -> None:
        self._unheard.remove(unheard)
        unheard.done(unheard.outcomes)


def _outcome(name: str, told: Refusal | None) -> Refusal | None:
    if told is None:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller says nothing of {name}")
    return None if told.code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) else told


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
    )
