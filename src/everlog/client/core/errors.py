"""What goes wrong between a client and a cluster, besides the codes in answers.

EverlogError
├── Unreachable     no connection, or it broke: another broker or another try may do
├── TimedOut        no answer in time; whether the request was carried out is not known
├── Unsupported     the broker does not speak the version or the API that is needed
└── Closed          the client that was called is closed
"""

from everlog.model.errors import ErrorCode, EverlogError, Refused


class Unreachable(EverlogError):
    """A broker could not be reached, or the connection to it broke."""

    retriable = True


class TimedOut(EverlogError):
    """An answer did not come in time."""

    retriable = True


class Unsupported(EverlogError):
    """The broker does not serve an API, or no version of it that we speak."""

    peer_at_fault = True


class Closed(EverlogError):
    """A client was used after it was closed, or was closed meanwhile."""


def error_code(number: int) -> ErrorCode:
    """The code for a number from the wire; one that we do not know counts as an unknown server error."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def refusal(number: int, message: str | None, what: str) -> Refused:
    """Make the exception for an error in an answer: what it is about, the code's name, the broker's words."""
    code = error_code(number)
    said = f": {message}" if message else ""
    return Refused(code, f"{what}: {code.name}{said}")
