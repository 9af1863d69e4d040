"""Chance, as a core may use it; a seed gives the same run again."""

from typing import Protocol

from everlog.model.ids import Uuid


class Random(Protocol):
    """A source of chance."""

    def uuid(self) -> Uuid:
        """A fresh id whose text form does not begin with a dash, as Kafka's do not."""
        ...

    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1."""
        ...
