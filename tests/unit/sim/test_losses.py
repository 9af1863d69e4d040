"""What a power failure was allowed to take is left out of a history, and nothing else."""

from everlog.sim.history import History, Kind, Operation, Outcome, Polled, Sent
from everlog.sim.losses import PowerFailure, forgive

_FAILURE = PowerFailure(at=100, ends={"t-0": 5})


def _forgiven(operation: Operation, *, acknowledged: bool) -> Operation:
    (left,) = forgive(History((operation,)), [_FAILURE], acknowledged=acknowledged).operations
    return left


def test_a_read_of_what_was_lost_goes_and_one_of_what_was_kept_stays() -> None:
    polls = (Polled("t-0", 4, "kept"), Polled("t-0", 5, "lost"), Polled("t-1", 0, "lost too"))
    read = Operation("p", Kind.POLL, Outcome.OK, 10, 20, polls=polls)

    assert _forgiven(read, acknowledged=False).polls == polls[:1]


def test_a_read_that_was_answered_after_the_failure_stays() -> None:
    read = Operation("p", Kind.POLL, Outcome.OK, 90, 120, polls=(Polled("t-0", 7, "new"),))

    assert _forgiven(read, acknowledged=True) == read


def test_an_acknowledgement_is_forgiven_only_where_it_did_not_wait_for_the_disk() -> None:
    sent = Operation("p", Kind.SEND, Outcome.OK, 10, 20, (Sent("t-0", "a", 5),))

    assert _forgiven(sent, acknowledged=False) == sent
    forgiven = _forgiven(sent, acknowledged=True)
    assert (forgiven.outcome, forgiven.end, forgiven.sends[0].offset) == (Outcome.INFO, None, None)


def test_what_was_sent_later_is_not_touched() -> None:
    sent = Operation("p", Kind.SEND, Outcome.OK, 101, 120, (Sent("t-0", "a", 5),))

    assert _forgiven(sent, acknowledged=True) == sent
