"""Fencing a broker, however many partitions it is in sync with."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from everlog.controller.brokers import FenceBroker
from everlog.controller.controller import Done
from everlog.controller.decisions import Command, More
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import BrokerId

R = TypeVar("R")


class Decider(Protocol):
    """Who decides on commands: the controller."""

    def submit(self, command: Command[R], done: Done[R]) -> None:
        """Decide on a command; `done` gets its reply once that is committed, or why there is none."""
        ...


def fence(
    decider: Decider,
    broker: BrokerId,
    epoch: int,
    done: Callable[[Refused | StorageError | None], None],
) -> None:
    """Fence a broker of this life, decision after decision; `done` gets None once it is fenced.

    Each decision waits for the one before to be committed; others are decided in between. Where one fails,
    what was decided stays, the broker is not fenced, and it may be asked again.
    """
    _step(decider, FenceBroker(broker, epoch), done)


def _step(
    decider: Decider, command: FenceBroker, done: Callable[[Refused | StorageError | None], None]
) -> None:
    def decided(reply: More | Refused | StorageError | None) -> None:
        if isinstance(reply, More):
            _step(decider, replace(command, since=reply), done)
        else:
            done(reply)

    decider.submit(command, decided)
