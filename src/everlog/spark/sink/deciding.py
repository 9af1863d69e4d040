"""Carries out what `protocol` asks for: the driver's side of the sink, on a cluster (D2)."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, assert_never

from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.admin.transactions import ONGOING, Transaction
from everlog.client.core.errors import Fenced, Unsupported
from everlog.client.core.producer.settings import ProducerOptions
from everlog.client.core.txn.prepared import PreparedTransaction
from everlog.client.sync.admin import Admin
from everlog.client.sync.producer import Producer
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.model.topics import TopicPartition
from everlog.spark.sink.decisions import create_decisions, decision_place, last_decision, write_decision
from everlog.spark.sink.errors import SinkFailed
from everlog.spark.sink.names import DECISIONS, decider_id, transactional_id_prefix
from everlog.spark.sink.options import SinkOptions
from everlog.spark.sink.producers import taken_over
from everlog.spark.sink.protocol import (
    Abort,
    Announce,
    Commit,
    Decide,
    Decision,
    FindOpen,
    Gone,
    Held,
    Hold,
    ReadDecision,
    ShutOutOthers,
    Step,
    Steps,
)
from everlog.spark.sink.steps import reached

_log = logging.getLogger(__name__)

_DECISION_TIMEOUT_MS = 20_000
_GLANCE_MS = 3_000
"""How long an abort waits to learn of a decision; the next batch aborts what it leaves."""
_MARGIN_MS = 60_000
"""What a transaction without two-phase commit must have left of its time-out when it is decided upon."""

Offsets = Callable[[], Mapping[TopicPartition, int]]


class Decider:
    """Decides for one query; with `keep` it outlives its `with` block, and shuts out others only once."""

    def __init__(self, options: SinkOptions, query: str, *, keep: bool = False) -> None:
        self._options = options
        self._query = query
        self._admin = Admin(options.bootstrap_servers, **options.admin)
        self._producer: Producer | None = None
        self._last: Decision | None = None
        """The last decision, while `_producer` is there: nobody else can have decided since."""
        self._place = TopicPartition(DECISIONS, 0)
        """Where its decisions go, while `_producer` is there."""
        self._can_hold = True
        self._keep = keep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        if not self._keep:
            self.close()

    def run(self, steps: Callable[[], Steps], offsets: Offsets = dict) -> None:
        """Carry out all steps; from the beginning if another process has decided since we last did.

        That may be another of this driver's, and no harm is done if it is not: the second time we read what
        it has decided.
        """
        kept = self._producer is not None
        try:
            self._run(steps(), offsets)
        except Fenced:
            if not kept:
                raise
            self._run(steps(), offsets)

    def close(self) -> None:
        """Part with the cluster."""
        self._forget()
        self._admin.close()

    def _run(self, steps: Steps, offsets: Offsets) -> None:
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._carry_out(step, offsets)
                except EverlogError as error:
                    if isinstance(step, ShutOutOthers | Decide):
                        self._forget()
                    step = steps.throw(error)
                else:
                    reached(f"after-{type(step).__name__}")
                    step = steps.send(answer)
        except StopIteration:
            return

    def _carry_out(self, step: Step, offsets: Offsets) -> object:
        match step:
            case ShutOutOthers():
                return self._shut_out_others()
            case ReadDecision():
                return self._glance()
            case Hold(transactions):
                return self._hold(transactions)
            case Announce():
                self._producer = self._take_over()
                return None
            case FindOpen(beside):
                return self._find_open(beside)
            case Decide(decision):
                assert self._producer is not None
                write_decision(
                    self._producer,
                    self._place,
                    self._query,
                    decision,
                    {} if self._options.commit_group is None else {self._options.commit_group: offsets()},
                )
                self._last = decision
                return None
            case Commit(decision):
                self._commit(decision)
                return None
            case Abort(transactions):
                self._abort(transactions)
                return None
            case _:
                assert_never(step)

    def _forget(self) -> None:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            producer.close(0)

    def _shut_out_others(self) -> Decision | None:
        if self._producer is not None:
            return self._last
        create_decisions(self._admin)
        self._producer = self._take_over()
        self._place = decision_place(self._producer, self._query)
        # Only now: what another has decided before it was shut out is there to be read.
        self._last = last_decision(self._admin, self._options, self._query)
        return self._last

    def _take_over(self) -> Producer:
        """The one producer that decides for the query; whoever had it is fenced."""
        settings: ProducerOptions = {}
        settings.update(dict(self._options.producer))  # type: ignore[typeddict-item]  # checked before
        settings["transactional_id"] = decider_id(self._query)
        settings["transaction_timeout_ms"] = min(
            _DECISION_TIMEOUT_MS, max(1, self._options.transaction_timeout_ms // 4)
        )
        settings["linger_ms"] = 0
        return taken_over(self._options, settings)

    def _glance(self) -> Decision | None:
        settings: dict[str, Any] = {**self._options.admin, "default_api_timeout_ms": _GLANCE_MS}
        with Admin(self._options.bootstrap_servers, **settings) as admin:
            return last_decision(admin, self._options, self._query)

    # Transactions of tasks.

    def _hold(self, transactions: Sequence[PreparedTransaction]) -> Held:
        if self._can_hold:
            try:
                held = self._admin.hold_prepared_transactions(transactions)
            except (Unsupported, Refused) as error:
                if isinstance(error, Refused) and not _is_not_allowed(error):
                    raise Gone(f"a transaction of this batch is open no more: {error}") from None
                self._can_hold = False
            else:
                return Held(tuple(held[one] for one in transactions), for_ever=True)
        self._check_open(transactions)
        return Held(tuple(transactions), for_ever=False)

    def _check_open(self, transactions: Sequence[PreparedTransaction]) -> None:
        margin_ms = min(_MARGIN_MS, self._options.transaction_timeout_ms // 2)
        found = self._described(one.transactional_id for one in transactions)
        for one in transactions:
            seen = found.get(one.transactional_id)
            if seen is None:
                raise Gone(
                    f"the transaction of {one.transactional_id!r} is open no more: its id is forgotten"
                )
            if seen.state != ONGOING or (seen.producer_id, seen.producer_epoch) != _stamp(one):
                raise Gone(
                    f"the transaction of {one.transactional_id!r} is open no more: it is {seen.state}, epoch "
                    f"{seen.producer_epoch}, expected {ONGOING}, epoch {one.producer_epoch}"
                )
            left_ms = (seen.started_at or 0) + seen.timeout_ms - int(time.time() * 1000)
            if left_ms < margin_ms:
                raise Gone(
                    f"the transaction of {one.transactional_id!r} has {left_ms} ms left of its time-out of "
                    f"{seen.timeout_ms}: expected {margin_ms} at least. Make batches smaller, or have the "
                    "cluster allow two-phase commit"
                )

    def _described(self, names: Iterable[str]) -> dict[str, Transaction]:
        """Transactional ids by name; one that the cluster has forgotten is left out."""
        try:
            return self._admin.describe_transactions(names)
        except ItemsRefused as error:
            if any(one.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND for one in error.errors.values()):
                raise
            return error.done

    def _find_open(self, beside: frozenset[str]) -> tuple[PreparedTransaction, ...]:
        prefix = transactional_id_prefix(self._query)
        listed = [one.transactional_id for one in self._admin.list_transactions(states=[ONGOING])]
        names = [one for one in listed if one.startswith(prefix) and one not in beside]
        found = self._described(names) if names else {}
        return tuple(
            PreparedTransaction(one.transactional_id, one.producer_id, one.producer_epoch)
            for one in found.values()
            if one.state == ONGOING
        )

    def _commit(self, decision: Decision) -> None:
        try:
            self._admin.commit_prepared_transactions(decision.transactions)
        except ItemsRefused as error:
            lost = [one for one, why in error.errors.items() if not _was_committed(decision, why)]
            if not lost:
                return
            message = (
                f"batch {decision.batch} of query {self._query} was decided, and {len(lost)} of its "
                f"{len(decision.transactions)} transactions were aborted before they could be committed: "
                f"{error}. The query was away for longer than their time-out, or somebody aborted them. "
                f"Their rows are lost to the topic; with the option acceptLostBatch={decision.batch} the "
                "query goes on after them"
            )
            if self._options.accepted_loss != decision.batch:
                raise SinkFailed(message) from None
            _log.warning("%s", message)

    def _abort(self, transactions: Sequence[PreparedTransaction]) -> None:
        if not transactions:
            return
        self._admin.abort_prepared_transactions(transactions)
        # One that a driver held before it died can be ended by its holder alone, or by whoever takes its id.
        # Its run of the query is over, so nobody will use the id again.
        wanted = {one.transactional_id: one for one in transactions}
        for name, seen in self._described(wanted).items():
            if seen.state == ONGOING and (seen.producer_id, seen.producer_epoch) == _stamp(wanted[name]):
                self._admin.fence_producer(name)


def _stamp(one: PreparedTransaction) -> tuple[int, int]:
    return one.producer_id, one.producer_epoch


def _is_not_allowed(error: Refused) -> bool:
    codes = error.errors.values() if isinstance(error, ItemsRefused) else [error]
    return any(one.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED for one in codes)


def _was_committed(decision: Decision, why: Refused) -> bool:
    """Whether the cluster has forgotten a transaction that nothing but our own commit can have ended."""
    return decision.held and why.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
