"""Fetch sessions (KIP-227): the broker remembers what a client fetches, and answers only what has changed."""

from typing import NamedTuple

from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Instant
from everlog.ports.random import Random
from everlog.wire.hot.fetch import FetchData, FetchPartition, FetchResult, Topic

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 0x7FFFFFFF
_EVICT_AFTER_MS = 120_000

MOST_REMEMBERED = 250_000
"""Partitions that all sessions may have together, some 80 MB; Kafka counts sessions only."""


class _Remembered:
    """One partition of a session: what is wanted, and what the client was last told of it."""

    __slots__ = ("high_watermark", "start_offset", "told_error", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.start_offset = -1
        self.told_error = False


class FetchSession:
    """One session. Its partitions are served in their order; one that gave data goes to the end."""

    __slots__ = ("by_id", "epoch", "last_used_at", "partitions", "session_id")

    def __init__(self, session_id: int, by_id: bool, now: Instant) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.last_used_at = now
        self.partitions: dict[tuple[Topic, int], _Remembered] = {}

    def update(self, request: FetchData) -> None:
        """Take in what the client adds, changes and forgets."""
        for wanted in request.partitions:
            key = (wanted.topic, wanted.partition)
            remembered = self.partitions.get(key)
            if remembered is None:
                self.partitions[key] = _Remembered(wanted)
            else:
                remembered.wanted = wanted
        for key in request.forgotten:
            self.partitions.pop(key, None)

    def worth_telling(self, topic: Topic, result: FetchResult) -> bool:
        """Whether a result says anything that the client does not know; remembers that it was said."""
        key = (topic, result.partition)
        remembered = self.partitions[key]
        news = (
            result.records is not None
            or result.error_code != 0
            or remembered.told_error
            or result.high_watermark != remembered.high_watermark
            or result.start_offset != remembered.start_offset
            or result.diverging is not None
            or result.preferred >= 0
        )
        remembered.high_watermark = result.high_watermark
        remembered.start_offset = result.start_offset
        remembered.told_error = result.error_code != 0
        if result.records is not None:
            # Whoever gave data goes to the end, so that a full answer does not starve those behind it.
            self.partitions[key] = self.partitions.pop(key)
        return news


class FetchContext(NamedTuple):
    """What a fetch is about, whether it was spelled out or remembered."""

    partitions: list[FetchPartition]
    session: FetchSession | None
    incremental: bool
    """Whether partitions without news are left out of the answer."""

    @property
    def session_id(self) -> int:
        """The id to answer with."""
        return NO_SESSION if self.session is None else self.session.session_id


class FetchSessions:
    """The sessions of a broker; there are only so many, and they remember only so many partitions."""

    def __init__(self, slots: int, random: Random, most_remembered: int = MOST_REMEMBERED) -> None:
        self._slots = slots
        self._most_remembered = most_remembered
        self._remembered = 0
        self._random = random
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, request: FetchData, by_id: bool, now: Instant) -> FetchContext:
        """Find or open the session that the request speaks of; Refused if it cannot be continued."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._end(self._sessions.get(request.session_id))
            session = None
            if request.session_epoch == INITIAL_EPOCH and request.partitions:
                session = self._open(by_id, len(request.partitions), now)
            if session is not None:
                self._update(session, request)
            return FetchContext(request.partitions, session, incremental=False)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise Refused(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {request.session_id}"
            )
        if session.epoch != request.session_epoch:
            raise Refused(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session.session_id} is at epoch {session.epoch}, "
                f"found {request.session_epoch}",
            )
        if session.by_id != by_id:
            raise Refused(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                f"fetch session {request.session_id} names topics by {'id' if session.by_id else 'name'}",
            )
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        session.last_used_at = now
        self._update(session, request)
        wanted = [remembered.wanted for remembered in session.partitions.values()]
        return FetchContext(wanted, session, incremental=True)

    def _update(self, session: FetchSession, request: FetchData) -> None:
        """Have a session remember what the request says; Refused, and its end, if that is too much."""
        before = len(session.partitions)
        session.update(request)
        self._remembered += len(session.partitions) - before
        if self._remembered > self._most_remembered:
            self._end(session)
            raise Refused(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                f"fetch session {session.session_id} has come to {len(session.partitions)} partitions, "
                f"all together may have {self._most_remembered}",
            )

    def _open(self, by_id: bool, partitions: int, now: Instant) -> FetchSession | None:
        """Open a session for so many partitions, if there is room or somebody can be made to give way."""
        while len(self._sessions) >= self._slots or self._remembered + partitions > self._most_remembered:
            if not self._evict(now):
                return None
        session_id = 0
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.below(_MAX_EPOCH)
        session = self._sessions[session_id] = FetchSession(session_id, by_id, now)
        return session

    def _evict(self, now: Instant) -> bool:
        """Make room by ending the session that was not used for longest, if that is long enough."""
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_at)
        if now - oldest.last_used_at < _EVICT_AFTER_MS:
            return False
        self._end(oldest)
        return True

    def _end(self, session: FetchSession | None) -> None:
        if session is not None:
            del self._sessions[session.session_id]
            self._remembered -= len(session.partitions)
