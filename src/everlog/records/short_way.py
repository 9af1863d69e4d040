"""The short way of a record that is sent by itself: into the batch that is open for its partition (P1).

There is one only where it is compiled. Who owns the batches opens an inlet into one of them, up to a size;
`ShortWay.send` takes a record if its inlet is open and has room, and calls the long way in all other
cases. The long way is the reference: the short one decides nothing and refuses nothing.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["Inlet", "ShortWay", "short_way", "tell_delivered", "ticket"]

if TYPE_CHECKING:
    from everlog.records._rows import Inlet, ShortWay, ticket_type
else:
    try:
        from everlog.records._rows import Inlet, ShortWay, ticket_type
    except ImportError:
        Inlet = ShortWay = object
        ticket_type = None

tell_delivered: (
    Callable[[list[Any], type[tuple[Any, ...]], str, int, int, int, Callable[[Exception], object]], None]
    | None
)
try:
    from everlog.records._rows import tell_delivered
except ImportError:
    tell_delivered = None

Ticket = TypeVar("Ticket")


def ticket(plain: type[Ticket]) -> type[Ticket]:
    """Make a class for what is returned for a record: its slots are `_batch`, `_index` and `_timestamp`.

    Compiled it is made in a tenth of the time, and the garbage collector does not look at it. The methods
    stay those of the plain class.
    """
    if not TYPE_CHECKING and ticket_type is None:
        return plain
    made: Any = ticket_type()
    for name, attribute in vars(plain).items():
        if name not in ("__slots__", "__init__", "__dict__", "__weakref__", "_batch", "_index", "_timestamp"):
            setattr(made, name, attribute)
    made.__name__, made.__qualname__ = plain.__name__, plain.__qualname__
    compiled: type[Ticket] = made
    return compiled


def short_way(long_way: Callable[..., Any], tickets: type, *, hashes_keys: bool) -> ShortWay | None:
    """Return a short way beside a long one, if it is compiled; `tickets` is a class made by `ticket`.

    With `hashes_keys` a record's key gives its partition by murmur2, and one without goes to the inlet that
    was named last with `stick`; otherwise only records that name their partition go the short way.
    """
    if not TYPE_CHECKING and ticket_type is None:
        return None
    return ShortWay(long_way, tickets, hashes_keys)
