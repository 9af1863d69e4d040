"""Transactions: what an Admin asks of coordinators and of partitions' leaders (blocking; P5, KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from everlog.client.sync.admin_desk import AdminDesk
from everlog.model.topics import TopicPartition

if TYPE_CHECKING:
    from everlog.client.core.admin.transactions import (
        ActiveProducer,
        FencedProducer,
        Transaction,
        TransactionListing,
    )
    from everlog.client.core.txn.prepared import PreparedTransaction


class TransactionCalls(AdminDesk):
    """Calls about transactions."""

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all brokers, by name; all, or those that pass every filter given."""
        return self._run(
            self._admin.list_transactions(
                states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms
            )
        )

    def describe_transaction(self, transactional_id: str) -> Transaction:
        """A transactional id; Refused with TRANSACTIONAL_ID_NOT_FOUND if there is none of that name."""
        return self._run(self._admin.describe_transaction(transactional_id))

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """Transactional ids: their producers, and the transactions that they have open."""
        return self._run(self._admin.describe_transactions(transactional_ids))

    def fence_producer(self, transactional_id: str) -> FencedProducer:
        """Abort what a transactional id has open and shut its producer out; returns once that is done."""
        return self._run(self._admin.fence_producer(transactional_id))

    # Transactions that their producers have prepared: `Producer.prepare_transaction`.

    def commit_prepared_transactions(self, prepared: Iterable[PreparedTransaction]) -> None:
        """Commit transactions in the place of their producers; those that are committed already stay so.

        ItemsRefused names those that were aborted meanwhile, as by their time-out; the others are committed.
        """
        return self._run(self._admin.commit_prepared_transactions(prepared))

    def abort_prepared_transactions(self, prepared: Iterable[PreparedTransaction]) -> None:
        """Abort transactions and shut their producers out; what those ids were used for since stays alone.

        On Apache Kafka that holds for what was begun before this call.
        """
        return self._run(self._admin.abort_prepared_transactions(prepared))

    def hold_prepared_transactions(
        self, prepared: Iterable[PreparedTransaction]
    ) -> dict[PreparedTransaction, PreparedTransaction]:
        """Take transactions over: no time-out ends them, and only what is returned for each does (KIP-939).

        Unsupported where the cluster has no two-phase commit, Refused with
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED where it is not allowed. ItemsRefused names those that are open
        no more; the others are held, and must be ended in the end.
        """
        return self._run(self._admin.hold_prepared_transactions(prepared))

    def describe_producers(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Sequence[ActiveProducer]]:
        """The producers that the leaders of partitions remember, with the transactions open there."""
        return self._run(self._admin.describe_producers(places))

    def abort_transaction(self, producer: ActiveProducer) -> None:
        """End one producer's transaction in one partition as aborted, past its coordinator.

        For transactions that hang: `find_hanging_transactions`. To end one that is alive, use
        `fence_producer`.
        """
        return self._run(self._admin.abort_transaction(producer))

    def find_hanging_transactions(
        self, producers: Iterable[ActiveProducer], max_timeout_ms: int
    ) -> list[ActiveProducer]:
        """Those of some producers whose transaction no coordinator will ever end.

        None is taken for hanging whose last record is younger than `max_timeout_ms`, the brokers'
        `transaction.max.timeout.ms`.
        """
        return self._run(self._admin.find_hanging_transactions(producers, max_timeout_ms))
