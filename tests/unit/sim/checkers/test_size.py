"""A history of 50,000 operations is checked in seconds, and what is wrong at its end is found."""

import time
from collections.abc import Iterator
from dataclasses import replace

from everlog.sim.checkers import check, summary
from everlog.sim.history import History, Kind, Operation, Outcome, Polled, Sent

_OPERATIONS = 50_000
_PARTITIONS = 8


def _long_history() -> Iterator[Operation]:
    """Transactions of four writers over eight partitions, and four readers that follow them."""
    ends = [0] * _PARTITIONS
    read: dict[tuple[int, int], int] = {}
    logs: list[list[str]] = [[] for _ in range(_PARTITIONS)]
    for number in range(_OPERATIONS):
        who, at = number % 8, number * 10
        if who < 4:
            chosen = [(number * 7 + step) % _PARTITIONS for step in range(2)]
            sends: list[Sent] = []
            for partition in chosen:
                value = f"{number}"
                sends.append(Sent(f"t-{partition}", value, ends[partition]))
                logs[partition].append(value)
                ends[partition] += 1
            yield Operation(f"writer {who}", Kind.TXN, Outcome.OK, at, at + 25, tuple(sends))
        else:
            partition = (number // 8) % _PARTITIONS
            start = read.get((who, partition), 0)
            stop = min(start + 8, ends[partition])
            read[who, partition] = stop
            polls = tuple(
                Polled(f"t-{partition}", offset, logs[partition][offset]) for offset in range(start, stop)
            )
            yield Operation(f"reader {who}", Kind.POLL, Outcome.OK, at, at + 5, polls=polls)


def test_fifty_thousand_operations_are_checked_in_seconds() -> None:
    operations = list(_long_history())
    started = time.perf_counter()

    sound = check(History(tuple(operations)))
    took = time.perf_counter() - started
    last = max(index for index, operation in enumerate(operations) if operation.polls)
    first_poll, *others = operations[last].polls
    operations[last] = replace(operations[last], polls=(replace(first_poll, value="never sent"), *others))
    broken = check(History(tuple(operations)))

    assert summary(sound) == "no violations"
    assert {violation.invariant for violation in broken} == {"C1", "C11"}
    # It takes about two seconds; the bound leaves room for a busy machine.
    assert took < 20, f"{took:.1f} s"
