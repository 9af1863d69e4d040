"""Fetch sessions: a broker remembers what we read, and a request names only what has changed (KIP-227)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from everlog.client.core.errors import error_code
from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

NO_SESSION = 0
FULL, CLOSING = 0, -1
"""Session epochs that are not a count: a request that names everything, and one that ends the session."""
MAX_SESSION_EPOCH = 2**31 - 1

SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class Ask(NamedTuple):
    """What a request says of one partition, and about which version of our position."""

    topic_id: Uuid
    fetch_offset: int
    leader_epoch: int
    max_bytes: int
    version: int = 0


class FetchSession:
    """What one broker knows of our partitions. One request at a time: `begin`, then `done` or `broken`."""

    def __init__(self, epoch: int = FULL) -> None:
        self.session_id = NO_SESSION
        self._epoch = epoch
        self._known: Mapping[TopicPartition, Ask] = {}
        """As the broker has it after the last request; empty if the next one is full."""
        self._has_ids = False

    def begin(self, wanted: Mapping[TopicPartition, Ask], request: FetchRequest) -> bool:
        """Fill in what a request says of partitions; returns whether all their topics have ids.

        It keeps the mapping, which must not change any more.
        """
        has_ids = all(ask.topic_id != NO_UUID for ask in wanted.values())
        known = self._known
        changed = wanted
        if not self.is_new:
            changed = {place: ask for place, ask in wanted.items() if known.get(place) != ask}
            if has_ids != self._has_ids or any(
                place in known and ask.topic_id != known[place].topic_id for place, ask in changed.items()
            ):
                # A topic was made anew under its name: a session cannot hold both.
                self._epoch = FULL
                changed = wanted
        self._has_ids = has_ids
        request.session_id = self.session_id
        request.session_epoch = self._epoch
        request.topics = _topics(changed)
        if not self.is_new:
            request.forgotten_topics_data = _forgotten(known, known.keys() - wanted.keys())
        self._known = wanted
        return has_ids

    @property
    def is_new(self) -> bool:
        """Whether the next request names everything, in the order in which it should be served."""
        return self._epoch == FULL

    def done(self, code: int, session_id: int) -> bool:
        """Take in an answer's code and session; whether it can be used. The next request follows at once."""
        if error_code(code) in SESSION_ERRORS:
            self._forget(NO_SESSION)
            return False
        if code != ErrorCode.NONE:
            self.broken()
            return False
        if session_id == NO_SESSION:
            self._forget(NO_SESSION)  # The broker has no room for it.
            return True
        self.session_id = session_id
        self._epoch = 1 if self._epoch in (FULL, MAX_SESSION_EPOCH) else self._epoch + 1
        return True

    def broken(self) -> None:
        """No answer came: what the broker knows now is uncertain, so the next request names everything."""
        self._forget(self.session_id)

    def closing(self) -> FetchRequest | None:
        """The request that ends the session, if there is one."""
        if self.session_id == NO_SESSION:
            return None
        return FetchRequest(session_id=self.session_id, session_epoch=CLOSING, topics=[])

    def _forget(self, session_id: int) -> None:
        self.session_id = session_id
        self._epoch = FULL
        self._known = {}


def _topics(asks: Mapping[TopicPartition, Ask]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for place, ask in asks.items():
        topic = topics.get(place.topic)
        if topic is None:
            topic = topics[place.topic] = FetchTopic(topic=place.topic, topic_id=ask.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=place.partition,
                current_leader_epoch=ask.leader_epoch,
                fetch_offset=ask.fetch_offset,
                partition_max_bytes=ask.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(known: Mapping[TopicPartition, Ask], gone: Iterable[TopicPartition]) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for place in sorted(gone):
        topic = topics.get(place.topic)
        if topic is None:
            topic = topics[place.topic] = ForgottenTopic(
                topic=place.topic, topic_id=known[place].topic_id, partitions=[]
            )
        topic.partitions.append(place.partition)
    return list(topics.values())
