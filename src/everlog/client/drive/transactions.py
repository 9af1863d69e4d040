"""Carries out what a transactional producer decides: conversations with coordinators, each by a deadline."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from everlog.client.core.coordinators import CoordinatorKind
from everlog.client.core.errors import Closed, TimedOut, TransactionAborted
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.core.producer.identity import ProducerIdentity
from everlog.client.core.retry import Backoff
from everlog.client.core.txn.codes import Asked
from everlog.client.core.txn.prepared import PreparedTransaction
from everlog.client.core.txn.transactions import (
    EPOCH_PER_TRANSACTION,
    TRANSACTION_VERSION,
    Stage,
    Transactions,
    Turn,
)
from everlog.client.drive.link import ClusterLink
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.wire.message import Message
from everlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from everlog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from everlog.wire.messages.end_txn import EndTxnResponse
from everlog.wire.messages.init_producer_id import InitProducerIdResponse
from everlog.wire.messages.txn_offset_commit import TxnOffsetCommitResponse

Answer = TypeVar("Answer", bound=Message)

SOON_MS = 20
"""First wait where a coordinator is about to be done, as with the markers of the last transaction."""

_AT_MOST: Mapping[Asked, tuple[int, int]] = {
    Asked.INIT: (5, 5),
    Asked.ADD_PARTITIONS: (3, 3),
    Asked.ADD_OFFSETS: (4, 4),
    # From 5 on the group's coordinator adds the group by itself; 6 would need the ids of topics.
    Asked.COMMIT_OFFSETS: (4, 5),
    # From 5 on the end brings a new epoch.
    Asked.END: (4, 5),
}
"""The newest version of each request to speak, in versions 1 and 2 of transactions (KIP-890)."""

_PRODUCE_AT_MOST = 11
"""From 12 on, a leader adds its partition to the transaction by itself."""


class Outbox(Protocol):
    """What a transaction asks of the sender."""

    def adopt(self, identity: ProducerIdentity) -> None:
        """Send as this producer from now on; sequence numbers begin at 0. Nothing is under way."""
        ...

    async def flush(self, timeout: float) -> None:
        """Wait until every record was delivered or has failed; TimedOut if that takes too long."""
        ...

    def drop(self, error: EverlogError) -> None:
        """Fail with this what has not been sent, and what is under way as soon as it would be sent again."""
        ...

    def wake(self) -> None:
        """Look again for batches that may be sent."""
        ...


class TransactionSession:
    """The transactions of one producer, on one event loop. Calls come one after another."""

    def __init__(
        self,
        link: ClusterLink,
        outbox: Outbox,
        *,
        transactional_id: str,
        transaction_timeout_ms: int,
        max_block_ms: int,
    ) -> None:
        self.core = Transactions(transactional_id, transaction_timeout_ms)
        self._link = link
        self._outbox = outbox
        self._patience = max_block_ms / 1000
        self._busy = asyncio.Lock()
        self._adding: asyncio.Task[None] | None = None

    # What the application asks for; each ends within `timeout` seconds, by default within max_block_ms.

    async def init(self, timeout: float | None = None) -> None:
        """Take over the transactional id: what an earlier producer left open is aborted, and it is fenced."""
        deadline = self._deadline(timeout)
        async with self._alone(deadline):
            self.core.init()
            await self._take_epoch(deadline)

    async def begin(self, timeout: float | None = None) -> None:
        """Begin a transaction; an abort that was not finished is finished first."""
        deadline = self._deadline(timeout)
        async with self._alone(deadline):
            if self.core.stage is Stage.ABORTING:
                await self._abort(deadline)
            if self.core.stage is Stage.READY and self.core.needs_epoch:
                await self._take_epoch(deadline)
            self.core.begin()

    async def add_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Make the progress of a consumer a part of the transaction.

        After TimedOut or a cancellation only the same again, or an abort, is taken.
        """
        deadline = self._deadline(timeout)
        core, name = self.core, group.group_id
        try:
            async with self._alone(deadline):
                if not offsets:
                    core.check_open("send_offsets_to_transaction")
                    return
                core.start_offsets(name, offsets)
                await self._send_offsets(offsets, group, deadline)
                core.offsets_added(name, offsets)
        except (TimedOut, asyncio.CancelledError):
            if offsets:
                core.offsets_left(name, offsets)
            raise

    async def commit(self, timeout: float | None = None) -> None:
        """Deliver all records, then commit. After TimedOut it may be called again; nothing else helps then.

        TransactionFailed if a record could not be delivered: then it can only be aborted.
        """
        deadline = self._deadline(timeout)
        async with self._alone(deadline):
            await self._deliver_all(deadline, "commit_transaction")
            await self._end(deadline)

    async def prepare(self, timeout: float | None = None) -> PreparedTransaction | None:
        """Deliver all records and leave the end to others; None if nothing was sent. Else as `commit`."""
        deadline = self._deadline(timeout)
        async with self._alone(deadline):
            await self._deliver_all(deadline, "prepare_transaction")
            return self.core.prepared()

    async def abort(self, timeout: float | None = None) -> None:
        """Abort: what was sent is never seen by readers of committed records, what was not is dropped."""
        deadline = self._deadline(timeout)
        async with self._alone(deadline):
            await self._abort(deadline)

    async def give_up(self, error: BaseException, timeout: float | None = None) -> None:
        """Abort because of an error, if something is open; a failure of that is noted with the error."""
        if self.core.stage not in (Stage.IN_TRANSACTION, Stage.FAILED, Stage.ABORTING):
            return
        try:
            await self.abort(timeout)
        except EverlogError as second:
            error.add_note(f"the transaction was not aborted: {second}")

    async def close(self, timeout: float | None = None) -> None:
        """Abort what is open. If that fails, the coordinator's time-out will do it."""
        await self.give_up(Closed("the producer was closed"), timeout)
        await self._stop_adding()

    @asynccontextmanager
    async def _alone(self, deadline: float) -> AsyncGenerator[None]:
        """Wait for the call before this one to end."""
        try:
            async with asyncio.timeout(self._left(deadline)):
                await self._busy.acquire()
        except TimeoutError:
            raise TimedOut(
                f"transactional id {self.core.transactional_id!r}: another call has not come to an end"
            ) from None
        try:
            yield
        finally:
            self._busy.release()

    # What the sender asks.

    @property
    def produce_at_most(self) -> int | None:
        """The newest version of Produce that the current transaction allows; None for any."""
        return None if self.core.version >= EPOCH_PER_TRANSACTION else _PRODUCE_AT_MOST

    def admits(self, place: TopicPartition) -> bool:
        """Whether a batch for a partition may be sent now; if not yet, the sender is woken once it may."""
        if not self.core.may_write:
            return False
        if self.core.admit(place):
            return True
        if self._adding is None or self._adding.done():
            self._adding = asyncio.get_running_loop().create_task(self._add_partitions())
        return False

    def batch_failed(self, error: EverlogError) -> None:
        """Take in that a batch will not be delivered; neither will the others of its transaction."""
        self.core.batch_failed(error)
        # Not at once: the sender is in the middle of something.
        asyncio.get_running_loop().call_soon(self._drop_what_failed)

    # How it is done.

    def _drop_what_failed(self) -> None:
        if self.core.problem is not None:
            self._outbox.drop(self.core.problem)

    async def _take_epoch(self, deadline: float) -> None:
        core = self.core
        await self._converse(
            Asked.INIT, core.init_request, InitProducerIdResponse, core.initialized, deadline
        )
        self._outbox.adopt(core.identity)

    async def _abort(self, deadline: float) -> None:
        self.core.start_abort()
        self._outbox.drop(
            TransactionAborted(
                f"the transaction of {self.core.transactional_id!r} was aborted before it was sent"
            )
        )
        await self._stop_adding()
        await self._outbox.flush(self._left(deadline))
        await self._end(deadline)

    async def _send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, deadline: float
    ) -> None:
        core, name = self.core, group.group_id
        await self._converse(
            Asked.ADD_OFFSETS,
            lambda: core.group_request(name),
            AddOffsetsToTxnResponse,
            lambda answer: core.group_added(name, answer),
            deadline,
        )
        await self._converse(
            Asked.COMMIT_OFFSETS,
            lambda: core.offsets_request(offsets, group),
            TxnOffsetCommitResponse,
            core.offsets_taken,
            deadline,
            key=name,
        )

    async def _deliver_all(self, deadline: float, wish: str) -> None:
        self.core.start_commit(wish)
        try:
            await self._outbox.flush(self._left(deadline))
            # What failed to be delivered meanwhile shows now, and so do offsets that were not added.
            self.core.start_commit(wish)
        except BaseException:
            self.core.put_off_commit()
            raise

    async def _end(self, deadline: float) -> None:
        core, before = self.core, self.core.identity
        await self._converse(Asked.END, core.end_request, EndTxnResponse, core.ended, deadline)
        if core.identity != before:
            self._outbox.adopt(core.identity)

    async def _stop_adding(self) -> None:
        if self._adding is not None and not self._adding.done():
            # Whether the partitions were added is not known then.
            self.core.lost()
            self._adding.cancel()
            await asyncio.gather(self._adding, return_exceptions=True)

    async def _add_partitions(self) -> None:
        """Add partitions until none waits; what fails shows in the state."""
        core = self.core
        try:
            while core.may_write:
                deadline = self._deadline(None)
                try:
                    await self._converse(
                        Asked.ADD_PARTITIONS,
                        core.partitions_request,
                        AddPartitionsToTxnResponse,
                        core.partitions_added,
                        deadline,
                    )
                except TimedOut:
                    # The batches that wait for it expire by their own limit.
                    continue
                return
        except EverlogError:
            assert core.problem is not None, core.stage
        finally:
            self._outbox.wake()

    async def _converse(
        self,
        asked: Asked,
        make: Callable[[], Message | None],
        answer_type: type[Answer],
        take: Callable[[Answer], Turn],
        deadline: float,
        *,
        key: str | None = None,
    ) -> None:
        """Ask, if anything is due, until there is an answer that decides; TimedOut at the deadline."""
        key = key or self.core.transactional_id
        soon = Backoff(SOON_MS, self._link.settings.retry_backoff_max_ms)
        backoff = self._link.backoff()
        why = ""
        while (request := make()) is not None:
            try:
                turn = take(await self._ask(asked, key, request, answer_type, deadline))
            except EverlogError as error:
                if not error.retriable:
                    self.core.call_failed(asked, error)
                    self._drop_what_failed()
                    raise self.core.problem or error from error
                self.core.lost()
                turn, why = Turn.ELSEWHERE, f": {error}"
            if turn is Turn.DONE:
                return
            if turn is Turn.FAILED:
                self._drop_what_failed()
                raise self.core.problem or TransactionAborted(f"the transaction of {key!r} was aborted")
            if turn is Turn.ELSEWHERE:
                self._link.forget_coordinator(asked.coordinator, key)
            if not await self._link.pause(backoff if turn is Turn.ELSEWHERE else soon, deadline):
                raise TimedOut(
                    f"transactional id {self.core.transactional_id!r}, {asked.words}: gave up{why}"
                )

    async def _ask(
        self, asked: Asked, key: str, request: Message, answer_type: type[Answer], deadline: float
    ) -> Answer:
        limit = self._left(deadline)
        try:
            async with asyncio.timeout(limit):
                node = await self._link.coordinator(asked.coordinator, key)
                connection = await self._link.broker(node.node_id)
                if asked.coordinator is CoordinatorKind.TRANSACTION:
                    self.core.learn_level(connection.versions.features.get(TRANSACTION_VERSION, 0))
                at_most = _AT_MOST[asked][self.core.version - 1]
                return await connection.call(request, answer_type, self._link.timeout, at_most=at_most)
        except TimeoutError:
            raise TimedOut(f"no answer within {limit:g} s") from None

    def _deadline(self, timeout: float | None) -> float:
        return asyncio.get_running_loop().time() + (self._patience if timeout is None else timeout)

    def _left(self, deadline: float) -> float:
        return max(0.0, deadline - asyncio.get_running_loop().time())
