"""D2: a batch of a query counts once, whoever crashes, wakes up late or competes; mutants show why."""

import random
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from everlog.client.core.errors import TimedOut
from everlog.client.core.txn.prepared import PreparedTransaction
from everlog.spark.sink.errors import SinkFailed
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
    Steps,
    abort_batch,
    commit_at_once,
    commit_batch,
)
from tests.unit.spark.sink.sink_world import Lost, MakeSteps, World, play, problems, settle

SEEDS = range(300)
A, B, C = (PreparedTransaction(name, 1, 0) for name in "abc")


def found_by(seed: int, make_steps: MakeSteps = commit_batch, **options: Any) -> list[str]:
    world = World(random.Random(seed), make_steps=make_steps, **options)
    try:
        play(world)
        settle(world)
    except (Lost, AssertionError) as error:
        return [repr(error)]
    return problems(world)


@pytest.mark.parametrize("can_hold", [True, False])
@pytest.mark.parametrize("asks", [True, False])
def test_each_row_counts_once_in_any_order_of_crashes_and_wakings(can_hold: bool, asks: bool) -> None:
    # Tasks that do not ask write for nothing, and that is all: the driver knows.
    for seed in SEEDS:
        assert found_by(seed, can_hold=can_hold, asks=asks) == [], seed


# What the order of steps is for: each of these is wrong in one place.

Written = Sequence[PreparedTransaction]


def commits_before_it_decides(batch: int, written: Written, skipped: int) -> Steps:
    late: Decide | None = None
    for step in _driven(commit_batch(batch, written, skipped)):
        answer: Any = None
        if isinstance(step, Decide):
            late = step
        else:
            answer = yield step
        if isinstance(step, Commit) and late is not None:
            yield late
        _answers.append(answer)


def does_not_check_that_transactions_are_open(batch: int, written: Written, skipped: int) -> Steps:
    for step in _driven(commit_batch(batch, written, skipped)):
        answer = Held(step.transactions, for_ever=False) if isinstance(step, Hold) else (yield step)
        _answers.append(answer)


def does_not_sweep(batch: int, written: Written, skipped: int) -> Steps:
    for step in _driven(commit_batch(batch, written, skipped)):
        answer = None if isinstance(step, Abort) else (yield step)
        _answers.append(answer)


def sweeps_what_it_finds_after_it_decided(batch: int, written: Written, skipped: int) -> Steps:
    counts: set[str] = set()
    for step in _driven(commit_batch(batch, written, skipped)):
        if isinstance(step, Commit):
            counts = {one.transactional_id for one in step.decision.transactions}
        if isinstance(step, Abort):
            found: tuple[PreparedTransaction, ...] = yield FindOpen(frozenset(counts))
            step = Abort(found)
        answer = yield step
        _answers.append(answer)


def sweeps_what_it_finds_when_it_finishes(batch: int, written: Written, skipped: int) -> Steps:
    last: Decision | None = None
    for step in _driven(commit_batch(batch, written, skipped)):
        if isinstance(step, Commit) and last is not None and last.batch >= batch:
            counts = frozenset(one.transactional_id for one in last.transactions)
            found: tuple[PreparedTransaction, ...] = yield FindOpen(counts)
            yield step
            yield Abort(found)
            _answers.append(None)
            continue
        answer = yield step
        if isinstance(step, ShutOutOthers):
            last = answer
        _answers.append(answer)


def shuts_out_nobody(batch: int, written: Written, skipped: int) -> Steps:
    for step in _driven(commit_batch(batch, written, skipped)):
        if isinstance(step, ShutOutOthers):
            # It reads first, and takes the right to decide only when it decides.
            _answers.append((yield ReadDecision()))
        elif isinstance(step, Decide):
            yield ShutOutOthers()
            _answers.append((yield step))
        else:
            _answers.append((yield step))


_answers: list[Any] = []


def _driven(steps: Steps) -> Generator[Any]:
    """The steps of the sink; what came of each is taken from `_answers` before the next."""
    _answers.clear()
    try:
        step = next(steps)
        while True:
            yield step
            step = steps.send(_answers.pop())
    except StopIteration:
        return


@pytest.mark.parametrize(
    "mutant",
    [
        commits_before_it_decides,
        does_not_check_that_transactions_are_open,
        does_not_sweep,
        sweeps_what_it_finds_after_it_decided,
        sweeps_what_it_finds_when_it_finishes,
        shuts_out_nobody,
    ],
)
def test_a_mutant_is_found_out(mutant: MakeSteps) -> None:
    assert any(found_by(seed, mutant) for seed in range(3000))


# Step by step.


def steps_of(steps: Steps, answers: dict[type, Any]) -> list[Any]:
    made: list[Any] = []
    try:
        step = next(steps)
        while True:
            made.append(step)
            answer = answers.get(type(step))
            step = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
    except StopIteration:
        return made


def test_a_batch_is_decided_before_it_is_committed_and_others_are_aborted_last() -> None:
    held = replace(A, producer_epoch=1)
    made = steps_of(
        commit_batch(7, [A], 0),
        {ShutOutOthers: Decision(6, (C,)), Hold: Held((held,), for_ever=True), FindOpen: (B,)},
    )
    decision = Decision(7, (held,), held=True, leftovers=(B,))
    assert made[:3] == [ShutOutOthers(), Hold((A,)), FindOpen(frozenset({"a"}))]
    assert made[3:] == [Decide(decision), Commit(decision), Abort((B,))]


def test_a_decided_batch_is_finished_and_this_attempt_aborted() -> None:
    last = Decision(7, (A,), leftovers=(C,))
    made = steps_of(commit_batch(7, [B], 1), {ShutOutOthers: last})
    assert made == [ShutOutOthers(), Commit(last), Abort((C,)), Abort((B,))]


def test_what_was_decided_and_is_open_still_is_committed_and_not_swept() -> None:
    last = Decision(6, (A, C))
    another = replace(C, producer_epoch=1)
    made = steps_of(
        commit_batch(7, [B], 0),
        {ShutOutOthers: last, Hold: Held((B,), for_ever=True), FindOpen: (A, another)},
    )
    decision = Decision(7, (B,), held=True, leftovers=(another,))
    assert made[2:] == [
        FindOpen(frozenset({"b"})),
        Commit(last),
        Decide(decision),
        Commit(decision),
        Abort((another,)),
    ]


def test_a_batch_before_the_last_decided_one_is_over() -> None:
    made = steps_of(commit_batch(6, [B], 0), {ShutOutOthers: Decision(7, (A,), leftovers=(C,))})
    assert made == [ShutOutOthers(), Abort((B,))]


def test_a_transaction_that_is_gone_ends_the_batch_and_all_its_others() -> None:
    with pytest.raises(Gone):
        steps_of(commit_batch(0, [A, B], 0), {Hold: Gone("a")})
    made = commit_batch(0, [A, B], 0)
    next(made)
    made.send(None)
    assert made.throw(Gone("a")) == Abort((A, B))


def test_a_decision_that_tasks_have_seen_and_the_driver_does_not_is_an_error() -> None:
    with pytest.raises(SinkFailed, match=r"batch 3 was decided when 2 of its tasks asked"):
        steps_of(commit_batch(3, [], 2), {ShutOutOthers: Decision(2, ())})


def test_an_abort_spares_what_was_decided() -> None:
    assert steps_of(abort_batch(3, [A]), {ReadDecision: Decision(3, (A,))}) == [ReadDecision()]
    assert steps_of(abort_batch(3, [A]), {ReadDecision: Decision(2, ())}) == [ReadDecision(), Abort((A,))]
    assert steps_of(abort_batch(3, [A]), {ReadDecision: TimedOut("under way")}) == [ReadDecision()]


def test_a_write_without_a_name_needs_no_decision() -> None:
    made = steps_of(commit_at_once([A]), {Hold: Held((A,), for_ever=False), FindOpen: (B,)})
    decision = Decision(0, (A,), leftovers=(B,))
    assert made == [Hold((A,)), Announce(), FindOpen(frozenset({"a"})), Commit(decision), Abort((B,))]


def test_a_write_without_a_name_of_which_tasks_wrote_nothing_is_an_error() -> None:
    with pytest.raises(SinkFailed, match="1 of the tasks"):
        steps_of(commit_at_once([A], 1), {})


def test_a_decision_is_read_as_it_was_written() -> None:
    decision = Decision(5, (A, replace(B, version=1)), held=True, leftovers=(C,))
    assert Decision.from_bytes(decision.to_bytes()) == decision
    for wrong in (b"", b"[]", b'{"format":2}', b'{"format":1,"batch":1}'):
        with pytest.raises(SinkFailed, match="a decision"):
            Decision.from_bytes(wrong)
