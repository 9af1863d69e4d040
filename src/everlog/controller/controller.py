"""Controller: decides on commands one after the other, and replies when what was decided is committed."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from everlog.controller.brokers import InitializeCluster
from everlog.controller.decisions import Command, Standing
from everlog.metadata.delta import Changes, apply_with_changes
from everlog.metadata.image import EMPTY_IMAGE, ClusterImage
from everlog.metadata.records import encode_record
from everlog.model.errors import Refused, StorageError
from everlog.model.settings import BrokerSettings
from everlog.ports.random import Random
from everlog.raft.quorum import Quorum

R = TypeVar("R")

Done = Callable[[R | Refused | StorageError], None]
Listener = Callable[[ClusterImage], None]


@dataclass(frozen=True, slots=True)
class _Pending:
    """A decision on its way: the image that it leads to and the reply that waits for it."""

    image: ClusterImage
    changes: Changes | None
    """None where it has no records and only waits for those before it."""
    reply: object
    done: Callable[[Any], None]


class Controller:
    """The one writer of the metadata log.

    `image` is what is committed. Each command is decided against the newest image, with all earlier
    decisions in it; should those not be committed, neither is what was built on them: every reply on its
    way becomes the StorageError, and the next command is decided against `image` again.
    """

    def __init__(
        self, quorum: Quorum, settings: BrokerSettings, random: Random, image: ClusterImage = EMPTY_IMAGE
    ) -> None:
        self._quorum = quorum
        self._settings = settings
        self._random = random
        self._image = image
        self._ahead = image
        """`_image` with all decisions on their way; ahead of the log by nothing."""
        self._pending: deque[_Pending] = deque()
        self._queue: deque[tuple[Command[Any], Callable[[Any], None]]] = deque()
        """Commands that came while this node was not leading the quorum."""
        self._beginning = False
        self.changes = Changes()
        """What `image` changed against the one before it; a listener may look here rather than compare."""
        self._listeners: list[Listener] = []

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is committed."""
        return self._image

    @property
    def epoch(self) -> int:
        """The epoch in which this controller is active; -1 while it is not."""
        return self._quorum.epoch

    def start(self, done: Done[None]) -> None:
        """Take the lead of the quorum and give a new cluster its first records; then commands are served."""
        self.submit(InitializeCluster(), done)

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` of each new image, before the reply to the command behind it goes."""
        self._listeners.append(listener)

    def submit(self, command: Command[R], done: Done[R]) -> None:
        """Decide on a command; `done` gets its reply once that is durable and applied, now or later.

        It gets Refused where the command as a whole cannot be, and StorageError where the disk let us
        down: then nothing of it is in effect, and it may be tried again.
        """
        if self._beginning or not self._quorum.leads:
            self._queue.append((command, done))
            self._begin()
            return
        standing = Standing(self._ahead, self._settings, self._random)
        try:
            decision = command.decide(standing)
        except Refused as refusal:
            self._enqueue(_Pending(self._ahead, None, refusal, done))
            return
        if not decision.records:
            self._enqueue(_Pending(self._ahead, None, decision.reply, done))
            return
        image, changes = apply_with_changes(self._ahead, decision.records, self._quorum.epoch)
        try:
            self._quorum.propose([encode_record(record) for record in decision.records], self._committed)
        except StorageError as error:
            done(error)
            return
        assert image.end_offset == self._quorum.end_offset, (image.end_offset, self._quorum.end_offset)
        self._ahead = image
        self._pending.append(_Pending(image, changes, decision.reply, done))

    def _enqueue(self, pending: _Pending) -> None:
        # A reply that rests on decisions not yet committed must not be heard before them.
        self._pending.append(pending)
        self._settle_replies()

    def _committed(self, error: StorageError | None) -> None:
        if error is not None:
            self._roll_back(error)
            return
        pending = self._pending.popleft()
        assert pending.changes is not None, "replies without records are settled as soon as they are first"
        self._publish(pending.image, pending.changes)
        pending.done(pending.reply)
        self._settle_replies()

    def _settle_replies(self) -> None:
        while self._pending and self._pending[0].changes is None:
            pending = self._pending.popleft()
            pending.done(pending.reply)

    def _publish(self, image: ClusterImage, changes: Changes) -> None:
        self._image = image
        self.changes = changes
        for listener in self._listeners:
            listener(image)

    def _roll_back(self, error: StorageError) -> None:
        # The quorum gives up all that was on its way and says so once for each; the first says it all.
        given_up, self._pending = self._pending, deque()
        self._ahead = self._image
        for pending in given_up:
            pending.done(error)

    def _begin(self) -> None:
        if not self._beginning:
            self._beginning = True
            self._quorum.lead(self._began)

    def _began(self, error: StorageError | None) -> None:
        self._beginning = False
        queue, self._queue = self._queue, deque()
        if error is None:
            # The entry that begins the epoch takes an offset of its own and changes nothing else.
            self._image = self._ahead = replace(
                self._image, end_offset=self._quorum.end_offset, epoch=self._quorum.epoch
            )
        for command, done in queue:
            if error is None:
                self.submit(command, done)
            else:
                done(error)
