"""Controller: decides on commands one after the other, and replies when what was decided is committed."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from everlog.controller.brokers import InitializeCluster
from everlog.controller.decisions import Command, Standing
from everlog.controller.keeper import ImageKeeper
from everlog.metadata.delta import apply
from everlog.metadata.image import ClusterImage
from everlog.metadata.records import encode_record
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Offset
from everlog.model.settings import BrokerSettings
from everlog.ports.random import Random

R = TypeVar("R")

Done = Callable[[R | Refused | StorageError], None]


class Proposer(Protocol):
    """The quorum, as whoever leads it writes to its log."""

    @property
    def epoch(self) -> int:
        """The newest epoch that this node knows of."""
        ...

    @property
    def end_offset(self) -> Offset:
        """Where the next entry will lie."""
        ...

    def propose(self, records: Sequence[bytes]) -> Offset:
        """Append records as one batch, and return the offset behind it; StorageError, and nothing done."""
        ...


@dataclass(frozen=True, slots=True)
class _Pending:
    """A reply that waits until all below `end` is committed."""

    end: Offset
    reply: object
    done: Callable[[Any], None]


class Controller:
    """The one writer of the metadata log, while this node leads the quorum.

    Each command is decided against the newest image, with all earlier decisions in it. Should the lead be
    lost before they are committed, whoever waits hears NOT_CONTROLLER: they may be in effect, or never be.
    """

    def __init__(
        self, quorum: Proposer, keeper: ImageKeeper, settings: BrokerSettings, random: Random
    ) -> None:
        self._quorum = quorum
        self._keeper = keeper
        self._settings = settings
        self._random = random
        self._ahead: ClusterImage | None = None
        """What is committed and all decisions on their way; None while this node does not lead."""
        self._pending: deque[_Pending] = deque()
        self.on_active: Callable[[], None] = lambda: None
        """Told when this controller has begun to serve, the cluster's first records in place."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is committed."""
        return self._keeper.image

    @property
    def is_active(self) -> bool:
        """Whether commands are decided here."""
        return self._ahead is not None

    @property
    def epoch(self) -> int:
        """The epoch in which this controller is active; -1 while it is not."""
        return -1 if self._ahead is None else self._quorum.epoch

    # What the quorum tells.

    def activated(self, epoch: int) -> None:
        """This node leads, and all that earlier leaders left is committed: begin to decide."""
        image = self._keeper.image
        assert image.end_offset == self._quorum.end_offset, (image.end_offset, self._quorum.end_offset)
        self._ahead = image
        self.submit(InitializeCluster(), self._initialized)

    def stood_down(self) -> None:
        """This node leads no more."""
        self._ahead = None
        given_up, self._pending = self._pending, deque()
        refusal = _not_controller()
        for pending in given_up:
            pending.done(refusal)

    def committed(self, high_watermark: Offset) -> None:
        """All below is committed, and the keeper has published it."""
        while self._pending and self._pending[0].end <= high_watermark:
            pending = self._pending.popleft()
            pending.done(pending.reply)

    # What others ask.

    def submit(self, command: Command[R], done: Done[R]) -> None:
        """Decide on a command; `done` gets its reply once that is durable and applied, now or later.

        It gets Refused where the command as a whole cannot be, NOT_CONTROLLER where this node does not lead
        or has lost the lead meanwhile, and StorageError where the disk let us down: then nothing of it is
        in effect.
        """
        ahead = self._ahead
        if ahead is None:
            done(_not_controller())
            return
        if ahead.end_offset < self._quorum.end_offset:
            # The quorum writes of itself, such as who votes. That changes nothing here, and takes offsets.
            ahead = replace(ahead, end_offset=self._quorum.end_offset)
        try:
            decision = command.decide(Standing(ahead, self._settings, self._random))
        except Refused as refusal:
            self._reply(ahead.end_offset, refusal, done)
            return
        if not decision.records:
            self._reply(ahead.end_offset, decision.reply, done)
            return
        image = apply(ahead, decision.records, self._quorum.epoch)
        # The reply waits before the records are on their way: a quorum of one may commit them at once.
        self._ahead = image
        self._pending.append(_Pending(image.end_offset, decision.reply, done))
        try:
            end = self._quorum.propose([encode_record(record) for record in decision.records])
        except StorageError as error:
            self._ahead = ahead
            self._pending.pop()
            done(error)
            return
        assert image.end_offset == end, (image.end_offset, end)

    def _reply(self, end: Offset, reply: object, done: Callable[[Any], None]) -> None:
        # A reply that rests on decisions not yet committed must not be heard before them.
        if end <= self._keeper.image.end_offset:
            done(reply)
        else:
            self._pending.append(_Pending(end, reply, done))

    def _initialized(self, reply: Refused | StorageError | None) -> None:
        if reply is None and self._ahead is not None:
            self.on_active()


def _not_controller() -> Refused:
    return Refused(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
