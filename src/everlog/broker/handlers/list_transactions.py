"""ListTransactions, versions 0 to 2.

1 asks for those that are open longer than some time, 2 for ids that match a pattern, in RE2's syntax.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.coordinator.group.regex import compile_pattern
from everlog.coordinator.txn.listing import TransactionFilter, listed
from everlog.coordinator.txn.states import BY_NAME
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: ListTransactionsRequest, exchange: Exchange) -> None:
    """List the transactional ids that this broker coordinates and that pass the filters."""
    txns = broker.coordinators.txns
    if not txns.all_loaded:
        exchange.answer(ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    names = request.state_filters
    try:
        pattern = request.transactional_id_pattern
        wanted = TransactionFilter(
            frozenset(BY_NAME[name] for name in names if name in BY_NAME) if names else None,
            frozenset(request.producer_id_filters),
            request.duration_filter,
            compile_pattern(pattern) if pattern else None,
        )
    except Refused as refusal:
        exchange.answer(ListTransactionsResponse(error_code=refusal.code))
        return
    wall = broker.clock.wall()
    exchange.answer(
        ListTransactionsResponse(
            unknown_state_filters=[name for name in names if name not in BY_NAME],
            transaction_states=[
                TransactionState(
                    transactional_id=txn.transactional_id,
                    producer_id=txn.producer_id,
                    transaction_state=txn.state.text,
                )
                for _, shard in txns.serving()
                for txn in listed(shard, wanted, wall)
            ],
        )
    )
