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
