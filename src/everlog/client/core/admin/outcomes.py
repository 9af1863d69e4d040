"""What became of several things asked for at once: all results, or one error that names what failed."""

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

from everlog.client.core.coordinators import PASSING
from everlog.client.core.errors import refusal
from everlog.model.errors import ErrorCode, Refused

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

_PASSING_ELSEWHERE = PASSING | {
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.BROKER_NOT_AVAILABLE,
}


class ItemsRefused(Refused):
    """Some of the things asked for were refused; `errors` says which and why, `done` what became of the rest.

    `code` is that of the first one refused. The others were carried out.
    """

    def __init__(self, errors: Mapping[Any, Refused], done: Mapping[Any, Any]) -> None:
        first = next(iter(errors.values()))
        message = str(first)
        if len(errors) > 1:
            said = "; ".join(str(error) for error in errors.values())
            message = f"{len(errors)} of {len(errors) + len(done)} were refused: {said}"
        super().__init__(first.code, message)
        self.errors = dict(errors)
        self.done = dict(done)


def all_done(outcomes: Mapping[Key, Result | Refused]) -> dict[Key, Result]:
    """The results by key if nothing was refused; ItemsRefused otherwise."""
    done = {key: outcome for key, outcome in outcomes.items() if not isinstance(outcome, Refused)}
    errors = {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, Refused)}
    if errors:
        raise ItemsRefused(errors, done)
    return done


def may_pass(error: Refused) -> bool:
    """Whether the same may succeed a little later, perhaps at another broker.

    UNKNOWN_TOPIC_OR_PARTITION is not among these: to whoever names a topic that is an answer. Nor is an
    election that is not needed, or whose replica is gone: that is one too.
    """
    return error.code in _PASSING_ELSEWHERE


def outcome(result: Result, number: int, message: str | None, what: str) -> Result | Refused:
    """The result of one item of an answer, or the refusal that its error code stands for."""
    return result if number == ErrorCode.NONE else refusal(number, message, what)
