"""Transactions: what an administrator asks of their coordinators and of partitions' leaders (P5, KIP-664)."""

import time
from collections.abc import Collection, Iterable
from functools import partial

from everlog.client.core.coordinators import CoordinatorKind
from everlog.client.core.errors import refusal
from everlog.client.core.metadata import Broker
from everlog.client.core.txn_admin import (
    NO_FILTER,
    ActiveProducer,
    Fenced,
    Transaction,
    TransactionListing,
    abort_marker_request,
    describe_producers_requests,
    describe_transaction_request,
    fence_request,
    hanging,
    hanging_candidates,
    list_transactions_request,
    marker_problem,
    read_fenced,
    read_listed_transactions,
    read_producers,
    read_transaction,
)
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.coordinators import Coordinators, patiently
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.messages.describe_producers import DescribeProducersResponse
from everlog.wire.messages.describe_transactions import DescribeTransactionsResponse
from everlog.wire.messages.init_producer_id import InitProducerIdResponse
from everlog.wire.messages.list_transactions import ListTransactionsResponse
from everlog.wire.messages.write_txn_markers import WriteTxnMarkersResponse

_TRANSACTION = CoordinatorKind.TRANSACTION


class TxnAdmin:
    """Calls that look at transactions or abort them; a coordinator that is loading is waited for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)

    def list_transactions(
        self,
        states: Collection[str] = (),
        *,
        longer_than_ms: int = NO_FILTER,
        producer_ids: Collection[int] = (),
    ) -> list[TransactionListing]:
        """The transactional ids of all brokers, by name; all, or those that pass every filter given."""
        request = list_transactions_request(states, producer_ids, longer_than_ms)

        def ask(node: int) -> list[TransactionListing]:
            answer = self._cluster.broker(node).call(request, ListTransactionsResponse, self._cluster.timeout)
            return read_listed_transactions(answer, node)

        found: list[TransactionListing] = []
        for node in sorted(self._cluster.refresh([]).brokers):
            found.extend(patiently(self._cluster, partial(ask, node)))
        return sorted(found, key=lambda listing: listing.transactional_id)

    def coordinator(self, transactional_id: str) -> Broker:
        """The broker that looks after a transactional id."""
        return self._coordinators.find(_TRANSACTION, transactional_id)

    def describe(self, transactional_id: str) -> Transaction:
        """A transactional id; Refused with TRANSACTIONAL_ID_NOT_FOUND if there is none of that name."""
        answer = self._coordinators.ask(
            _TRANSACTION,
            transactional_id,
            describe_transaction_request(transactional_id),
            DescribeTransactionsResponse,
            lambda answer: [entry.error_code for entry in answer.transaction_states],
        )
        return read_transaction(answer, transactional_id)

    def fence(self, transaction: Transaction) -> Fenced:
        """Abort what a transactional id has open, and shut its producer out; returns once that is done."""
        answer = self._coordinators.ask(
            _TRANSACTION,
            transaction.transactional_id,
            fence_request(transaction),
            InitProducerIdResponse,
            lambda answer: [answer.error_code],
        )
        return read_fenced(answer, transaction.transactional_id)

    def producers(self, places: Collection[TopicPartition]) -> list[ActiveProducer]:
        """The producers that the leaders of partitions remember."""
        self._cluster.topics(sorted({place.topic for place in places}))
        unknown = [place for place in places if self._cluster.view.partition(place) is None]
        if unknown:
            raise refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition", str(unknown[0]))
        found: list[ActiveProducer] = []
        for node, request in describe_producers_requests(places, self._cluster.view).items():
            connection = self._cluster.broker(node)
            found.extend(
                read_producers(connection.call(request, DescribeProducersResponse, self._cluster.timeout))
            )
        return found

    def abort_at(self, producer: ActiveProducer) -> None:
        """End one producer's transaction in one partition as aborted, past its coordinator."""
        leader = self._cluster.view.leader_of(producer.place)
        if leader is None:
            raise refusal(ErrorCode.LEADER_NOT_AVAILABLE, None, f"marker for {producer.place}")
        answer = self._cluster.broker(leader.node_id).call(
            abort_marker_request(producer), WriteTxnMarkersResponse, self._cluster.timeout
        )
        problem = marker_problem(answer, producer)
        if problem is not None:
            raise problem

    def find_hanging(self, producers: Iterable[ActiveProducer], max_timeout_ms: int) -> list[ActiveProducer]:
        """Those whose transaction no coordinator will ever end."""
        candidates = hanging_candidates(producers, int(time.time() * 1000), max_timeout_ms)
        if not candidates:
            return []
        listed = self.list_transactions(producer_ids=sorted({entry.producer_id for entry in candidates}))
        by_producer = {entry.producer_id: entry.transactional_id for entry in listed}
        partitions = {name: self._partitions_of(name) for name in sorted(set(by_producer.values()))}
        return hanging(candidates, by_producer, partitions)

    def _partitions_of(self, transactional_id: str) -> Collection[TopicPartition]:
        try:
            return self.describe(transactional_id).partitions
        except Refused as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return ()  # It expired since it was listed.
            raise
