"""What can go wrong in the sink."""

from everlog.model.errors import EverlogError


class SinkFailed(EverlogError):
    """A task or a batch could not be written; the message says what to do about it."""
