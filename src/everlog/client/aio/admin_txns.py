"""Transactions: what an Admin asks of coordinators and of partitions' leaders (asyncio; P5, KIP-664)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from everlog.client.aio.admin_desk import AdminDesk, Result
from everlog.client.core.admin.outcomes import all_done
from everlog.client.core.coordinators import CoordinatorKind
from everlog.client.core.errors import Unsupported, refusal
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.topics import TopicPartition

if TYPE_CHECKING:
    from everlog.client.core.admin.transactions import (
        ActiveProducer,
        FencedProducer,
        Transaction,
        TransactionListing,
    )
    from everlog.client.core.txn.prepared import PreparedTransaction

_TRANSACTION = CoordinatorKind.TRANSACTION


class TransactionCalls(AdminDesk):
    """Calls about transactions."""

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all brokers, by name; all, or those that pass every filter given."""
        from everlog.client.core.admin.transactions import (
            NO_FILTER,
            list_transactions_request,
            read_listed_transactions,
        )
        from everlog.wire.messages.list_transactions import ListTransactionsResponse

        span = NO_FILTER if longer_than_ms is None else longer_than_ms
        found = await self._at_all_brokers(
            list_transactions_request(states, producer_ids, span),
            ListTransactionsResponse,
            read_listed_transactions,
        )
        return sorted((entry for each in found for entry in each), key=lambda entry: entry.transactional_id)

    async def describe_transaction(self, transactional_id: str) -> Transaction:
        """A transactional id; Refused with TRANSACTIONAL_ID_NOT_FOUND if there is none of that name."""
        from everlog.client.core.admin.transactions import describe_transaction_request, read_transaction
        from everlog.wire.messages.describe_transactions import DescribeTransactionsResponse

        answer = await self._at_coordinator(
            _TRANSACTION,
            transactional_id,
            describe_transaction_request(transactional_id),
            DescribeTransactionsResponse,
            lambda answer: [entry.error_code for entry in answer.transaction_states],
        )
        return read_transaction(
            answer, transactional_id, await self._coordinator(_TRANSACTION, transactional_id)
        )

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """Transactional ids: their producers, and the transactions that they have open."""
        wanted = list(dict.fromkeys(transactional_ids))
        found = await asyncio.gather(*map(self._described, wanted))
        return all_done(dict(zip(wanted, found, strict=True)))

    async def _described(self, transactional_id: str) -> Transaction | Refused:
        try:
            return await self.describe_transaction(transactional_id)
        except Refused as error:
            return error

    async def fence_producer(self, transactional_id: str) -> FencedProducer:
        """Abort what a transactional id has open and shut its producer out; returns once that is done."""
        from everlog.client.core.admin.transactions import fence_request, read_fenced
        from everlog.wire.messages.init_producer_id import InitProducerIdResponse

        transaction = await self.describe_transaction(transactional_id)
        answer = await self._at_coordinator(
            _TRANSACTION,
            transactional_id,
            fence_request(transaction),
            InitProducerIdResponse,
            lambda answer: [answer.error_code],
        )
        return read_fenced(answer, transactional_id)

    # Transactions that their producers have prepared: `Producer.prepare_transaction`.

    async def commit_prepared_transactions(self, prepared: Iterable[PreparedTransaction]) -> None:
        """Commit transactions in the place of their producers; those that are committed already stay so.

        ItemsRefused names those that were aborted meanwhile, as by their time-out; the others are committed.
        """
        from everlog.client.core.admin.transactions import (
            commit_prepared_at_most,
            commit_prepared_request,
            read_committed,
        )
        from everlog.wire.messages.end_txn import EndTxnResponse

        async def one(wanted: PreparedTransaction) -> Refused | None:
            answer = await self._at_coordinator(
                _TRANSACTION,
                wanted.transactional_id,
                commit_prepared_request(wanted),
                EndTxnResponse,
                lambda answer: [answer.error_code],
                at_most=commit_prepared_at_most(wanted),
            )
            return read_committed(answer, wanted)

        await self._each_prepared(prepared, one)

    async def abort_prepared_transactions(self, prepared: Iterable[PreparedTransaction]) -> None:
        """Abort transactions and shut their producers out; what those ids were used for since stays alone.

        On Apache Kafka that holds for what was begun before this call.
        """
        from everlog.client.core.admin.transactions import abort_prepared_request, is_succeeded, read_aborted
        from everlog.wire.messages.init_producer_id import InitProducerIdResponse

        async def one(wanted: PreparedTransaction) -> Refused | None:
            # Kafka takes the epoch before the current one for a request that is sent again, and aborts what
            # is open under the current one.
            if is_succeeded(await self._described(wanted.transactional_id), wanted):
                return None
            answer = await self._at_coordinator(
                _TRANSACTION,
                wanted.transactional_id,
                abort_prepared_request(wanted),
                InitProducerIdResponse,
                lambda answer: [answer.error_code],
            )
            return read_aborted(answer, wanted)

        await self._each_prepared(prepared, one)

    async def hold_prepared_transactions(
        self, prepared: Iterable[PreparedTransaction]
    ) -> dict[PreparedTransaction, PreparedTransaction]:
        """Take transactions over: no time-out ends them, and only what is returned for each does (KIP-939).

        Unsupported where the cluster has no two-phase commit, Refused with
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED where it is not allowed. ItemsRefused names those that are open
        no more; the others are held, and must be ended in the end.
        """
        from everlog.client.core.admin.transactions import TWO_PHASE_VERSION, hold_request, read_held
        from everlog.wire.messages.init_producer_id import InitProducerIdResponse

        async def one(wanted: PreparedTransaction) -> PreparedTransaction | Refused:
            spoken = await self._init_version(wanted.transactional_id)
            if spoken < TWO_PHASE_VERSION:
                raise Unsupported(
                    f"two-phase commit: the cluster speaks InitProducerId up to version {spoken}, expected "
                    f"{TWO_PHASE_VERSION}; on Everlog, set transaction.two.phase.commit.enable=true"
                )
            answer = await self._at_coordinator(
                _TRANSACTION,
                wanted.transactional_id,
                hold_request(wanted),
                InitProducerIdResponse,
                lambda answer: [answer.error_code],
                at_most=TWO_PHASE_VERSION,
            )
            return read_held(answer, wanted)

        return await self._each_prepared(prepared, one)

    async def _init_version(self, transactional_id: str) -> int:
        """The version of InitProducerId that the coordinator of an id speaks."""
        from everlog.client.core.admin.transactions import TWO_PHASE_VERSION
        from everlog.wire.apis import ApiKey

        async def once(_limit: float) -> int:
            node = await self._link.coordinator(_TRANSACTION, transactional_id)
            try:
                connection = await self._link.broker(node.node_id)
            except EverlogError:
                self._link.forget_coordinator(_TRANSACTION, transactional_id)
                raise
            return connection.versions.pick(ApiKey.INIT_PRODUCER_ID, TWO_PHASE_VERSION)

        return await self._patiently(once)

    async def _each_prepared(
        self,
        prepared: Iterable[PreparedTransaction],
        one: Callable[[PreparedTransaction], Awaitable[Result | Refused]],
    ) -> dict[PreparedTransaction, Result]:
        wanted = list(dict.fromkeys(prepared))
        found = await asyncio.gather(*(one(each) for each in wanted))
        return all_done(dict(zip(wanted, found, strict=True)))

    async def describe_producers(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Sequence[ActiveProducer]]:
        """The producers that the leaders of partitions remember, with the transactions open there."""
        from everlog.client.core.admin.transactions import describe_producers_request, read_producers
        from everlog.wire.messages.describe_producers import DescribeProducersResponse

        return await self._each_at_leaders(
            places, describe_producers_request, DescribeProducersResponse, read_producers
        )

    async def abort_transaction(self, producer: ActiveProducer) -> None:
        """End one producer's transaction in one partition as aborted, past its coordinator.

        For transactions that hang: `find_hanging_transactions`. To end one that is alive, use
        `fence_producer`.
        """
        from everlog.client.core.admin.transactions import abort_marker_request, marker_problem
        from everlog.wire.messages.write_txn_markers import WriteTxnMarkersResponse

        place = producer.place

        async def once(limit: float) -> None:
            view = await self._link.refresh([place.topic])
            leader = view.leader_of(place)
            if leader is None:
                raise refusal(ErrorCode.LEADER_NOT_AVAILABLE, None, f"marker for {place}")
            answer = await self._link.call_node(
                leader.node_id, abort_marker_request(producer), WriteTxnMarkersResponse, limit
            )
            problem = marker_problem(answer, producer)
            if problem is not None:
                raise problem

        await self._patiently(once)

    async def find_hanging_transactions(
        self, producers: Iterable[ActiveProducer], max_timeout_ms: int
    ) -> list[ActiveProducer]:
        """Those of some producers whose transaction no coordinator will ever end.

        None is taken for hanging whose last record is younger than `max_timeout_ms`, the brokers'
        `transaction.max.timeout.ms`.
        """
        from everlog.client.core.admin.transactions import hanging, hanging_candidates

        candidates = hanging_candidates(producers, int(time.time() * 1000), max_timeout_ms)
        if not candidates:
            return []
        ids = sorted({entry.producer_id for entry in candidates})
        listed = await self.list_transactions(producer_ids=ids)
        by_producer = {entry.producer_id: entry.transactional_id for entry in listed}
        partitions = {name: await self._partitions_of(name) for name in sorted(set(by_producer.values()))}
        return hanging(candidates, by_producer, partitions)

    async def _partitions_of(self, transactional_id: str) -> Collection[TopicPartition]:
        try:
            return (await self.describe_transaction(transactional_id)).partitions
        except Refused as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return ()  # It expired since it was listed.
            raise
