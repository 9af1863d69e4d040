def appender(descriptor: int, /) -> object:
    """A capsule for `ports/appender.h`."""

def room_end(capsule: object, /) -> int:
    """Where the zeros end that were written ahead; 0 if there are none."""
