"""Producer ids: handed to brokers in blocks, and by a broker to its producers one by one.

An id is never given twice: a block is in the metadata log before its first id is used, and what a crash
leaves of a block is lost, which costs nothing in 63 bits.
"""

from collections import deque
from collections.abc import Callable

from everlog.controller.brokers import registration
from everlog.controller.decisions import Decision, Standing
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import BrokerId, ProducerId
from everlog.wire.messages.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE = 1_000
_LAST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Ids that one broker may hand out, from `first` on."""

    first: ProducerId
    size: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    """A broker asks for a block of producer ids."""

    broker: BrokerId
    epoch: int

    def decide(self, standing: Standing) -> Decision[ProducerIdBlock]:
        """Give the next block; Refused for a broker of another life, or when ids have run out."""
        registration(standing.image, self.broker, self.epoch)
        first = standing.image.next_producer_id
        if first > _LAST_ID - BLOCK_SIZE:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"producer ids have run out at {first}")
        record = ProducerIdsRecord(
            broker_id=self.broker, broker_epoch=self.epoch, next_producer_id=first + BLOCK_SIZE
        )
        return Decision((record,), ProducerIdBlock(first, BLOCK_SIZE))


Allocate = Callable[[Callable[[ProducerIdBlock | Refused | StorageError], None]], None]
"""Asks the controller for a block; the callback gets it once it is committed, now or later."""


class ProducerIdPool:
    """The ids that a broker has left. The next block is asked for before the last id is gone."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._following: ProducerIdBlock | None = None
        """The block to go on with when this one is used up."""
        self._asking = False
        self._waiting: deque[Callable[[ProducerId | Refused | StorageError], None]] = deque()

    def take(self, done: Callable[[ProducerId | Refused | StorageError], None]) -> None:
        """Give one id that nobody has had: at once if there is one, else when the next block is committed."""
        self._waiting.append(done)
        self._serve()

    def reserve(self) -> None:
        """Ask for the first block, so that the first producer need not wait for the disk."""
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            if self._next == self._end and not self._step_to_following():
                break
            taken = ProducerId(self._next)
            self._next += 1
            self._waiting.popleft()(taken)
        # Asked for at half a block, the next one is there long before it is needed.
        if self._following is None and self._end - self._next <= BLOCK_SIZE // 2:
            self._ask()

    def _step_to_following(self) -> bool:
        block = self._following
        if block is None:
            return False
        self._next, self._end = block.first, block.first + block.size
        self._following = None
        return True

    def _ask(self) -> None:
        if not self._asking:
            self._asking = True
            self._allocate(self._given)

    def _given(self, reply: ProducerIdBlock | Refused | StorageError) -> None:
        self._asking = False
        if isinstance(reply, ProducerIdBlock):
            self._following = reply
            self._serve()
            return
        # Ids that are left still serve; those who wait for a block are told, and the next asks again.
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            done(reply)
