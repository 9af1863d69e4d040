"""Chance from a seed."""

from collections.abc import Sequence
from random import Random as Generator
from typing import TypeVar

from everlog.model.ids import Uuid

Item = TypeVar("Item")


class SimRandom:
    """A source of chance that a seed repeats. Give each part of a simulation its own, by `fork`."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        """What this source grew from, for the message of a failure."""
        self._generator = Generator(seed)

    def fork(self, name: str) -> "SimRandom":
        """Another source from the same seed, which draws here do not shift."""
        return SimRandom(f"{self.seed}/{name}")

    def uuid(self) -> Uuid:
        """A fresh id whose text form does not begin with a dash."""
        while True:
            raw = self._generator.randbytes(16)
            if raw[0] >> 2 != 62:
                return Uuid(raw)

    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1."""
        return self._generator.randrange(bound)

    def happens(self, percent: int) -> bool:
        """True `percent` times in a hundred."""
        return self._generator.randrange(100) < percent

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self._generator.randrange(len(items))]
