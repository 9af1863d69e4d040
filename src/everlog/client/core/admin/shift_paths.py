"""The shortest way to take from one who has much and give to one who has little, through others if needed."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

Thing = TypeVar("Thing")

Step = tuple[int, Thing, int]
"""Who gives, what, and to whom."""


def shortest_shift(
    counts: Mapping[int, int], things_for: Callable[[int, int], Iterable[Thing]]
) -> list[Step[Thing]] | None:
    """The fewest steps after which somebody with much has one less and somebody with little one more.

    The two differ by two at least, so each shift makes the counts more even and shifts come to an end. Those
    between them have as many as before. None if nobody can give where it would help: no step of one thing at
    a time makes the counts more even. `things_for(giver, taker)` is what the one could hand to the other now,
    the best first.
    """
    for giver in sorted(counts, key=lambda each: (-counts[each], each)):
        path = _path_from(giver, counts, things_for)
        if path is not None:
            return path
    return None


def _path_from(
    start: int, counts: Mapping[int, int], things_for: Callable[[int, int], Iterable[Thing]]
) -> list[Step[Thing]] | None:
    order = sorted(counts, key=lambda each: (counts[each], each))
    if counts[start] - counts[order[0]] < 2:
        return None
    came: dict[int, Step[Thing]] = {}
    waiting = deque([start])
    while waiting:
        giver = waiting.popleft()
        for taker in order:
            if taker == start or taker in came:
                continue
            # A thing goes one step at most: it is with its first giver until the whole path is taken.
            taken = {id_of for _, id_of, _ in _steps_to(giver, start, came)}
            thing = next((each for each in things_for(giver, taker) if each not in taken), None)
            if thing is None:
                continue
            came[taker] = (giver, thing, taker)
            if counts[start] - counts[taker] >= 2:
                return _steps_to(taker, start, came)
            waiting.append(taker)
    return None


def _steps_to(end: int, start: int, came: Mapping[int, Step[Thing]]) -> list[Step[Thing]]:
    steps: list[Step[Thing]] = []
    while end != start:
        steps.append(came[end])
        end = came[end][0]
    return steps[::-1]
