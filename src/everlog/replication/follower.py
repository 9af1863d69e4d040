"""FollowerState: a partition as a follower sees it: where to fetch and to cut, what is committed (R1, R6).

Where two logs part ways is found by leader epochs, never by the high watermark (KIP-101, 279): the leader
answers a fetch that does not fit with the newest epoch up to the follower's last that it has, and its end.
"""

from typing import Protocol

from everlog.model.dataclass import dataclass
from everlog.model.divergence import where_to_cut
from everlog.model.ids import LeaderEpoch, Offset


class FollowersLog(Protocol):
    """The log of a follower, as far as it is asked here."""

    @property
    def end_offset(self) -> Offset:
        """Behind the last record."""
        ...

    @property
    def start_offset(self) -> Offset:
        """The first record's offset."""
        ...

    def epoch_end(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The newest epoch up to this one that has records, and where they end; (-1, 0) if none has."""
        ...

    def last_epoch(self) -> LeaderEpoch:
        """The epoch of the last record; -1 in an empty log."""
        ...


@dataclass(frozen=True, slots=True)
class FetchFrom:
    """What to ask the leader for."""

    leader_epoch: LeaderEpoch
    offset: Offset
    last_epoch: LeaderEpoch
    """Of the record before `offset`."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a leader has answered, without an error."""

    leader_epoch: LeaderEpoch
    """That of the request: an answer to an earlier one says nothing any more."""
    high_watermark: Offset
    log_start: Offset
    diverging: tuple[LeaderEpoch, Offset] | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Append the records of the answer, then fetch on."""


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Give up all from `end` on, then fetch again: there may be an earlier place yet."""

    end: Offset


@dataclass(frozen=True, slots=True)
class Ignore:
    """The answer is about another epoch."""


class FollowerState:
    """One partition followed here, in one leader epoch."""

    def __init__(
        self, leader: int, leader_epoch: LeaderEpoch, log: FollowersLog, high_watermark: Offset
    ) -> None:
        """Begin to follow; `high_watermark` is what was known before, and is not above the log's end."""
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.high_watermark = min(high_watermark, log.end_offset)
        """What may be served to consumers here. It may lag that of the leader."""
        self._log = log

    def next_fetch(self) -> FetchFrom:
        """What to ask the leader for now."""
        return FetchFrom(self.leader_epoch, self._log.end_offset, self._log.last_epoch())

    def take(self, answer: Fetched) -> Append | TruncateTo | Ignore:
        """What to do about an answer."""
        if answer.leader_epoch != self.leader_epoch:
            return Ignore()
        if answer.diverging is None:
            return Append()
        end = where_to_cut(answer.diverging, self._log.epoch_end(answer.diverging[0]))
        end = max(min(end, self._log.end_offset), self._log.start_offset)
        # An unclean leader may have less than was committed; then there is less to be seen here as well.
        self.high_watermark = min(self.high_watermark, end)
        return TruncateTo(end)

    def begun_anew(self) -> None:
        """All records were given up: what was committed before says nothing of those that will come."""
        self.high_watermark = self._log.end_offset

    def appended(self, answer: Fetched) -> Offset:
        """The records of the answer are in the log: up to where they are committed, as far as it is known."""
        self.high_watermark = max(self.high_watermark, min(answer.high_watermark, self._log.end_offset))
        return self.high_watermark
