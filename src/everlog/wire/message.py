"""What all message classes share: equality, a readable form, and the sentinel behind empty defaults."""

from typing import Any, ClassVar, Final

from everlog.ports.files import Buffer

Records = Buffer
"""Record batches as they are on the wire: decoded, a view of the frame; to be encoded, any buffer."""

# Any, so that it can stand for a list or a struct of any type in a signature; it never ends up in a field.
EMPTY: Final[Any] = object()
"""Given for a list or a struct, stands for a new one: Python would share one default among all calls."""


class Structure:
    """Fields in slots, equal if they are of one type and their fields are."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # Fields change, so equal ones cannot share a hash.

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class Message(Structure):
    """A structure that is encoded by itself: a request, an answer, or the value or key of a record."""

    __slots__ = ()

    FAMILY: ClassVar[str]
    """The module of `wire.schemas` that describes it; the name there is the name of the class."""

    KEY: ClassVar[int | None] = None
    """The API key of a request or an answer, the type id of a record."""
