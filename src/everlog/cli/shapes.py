"""The shapes that several commands' JSON shares: errors, byte strings, times."""

from base64 import b64decode, b64encode
from datetime import UTC, datetime
from typing import cast

from everlog.model.errors import EverlogError, Refused


def error_shape(error: EverlogError | None) -> dict[str, object] | None:
    """An error as JSON shows it: the wire's name for it, if there is one, and the sentence."""
    if error is None:
        return None
    code = error.code.name if isinstance(error, Refused) else None
    return {"code": code, "message": str(error), "retriable": error.retriable}


def bytes_shape(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes as JSON shows them: a string if they are UTF-8, else `{"base64": …}`."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode("ascii")}


def bytes_from_shape(shape: object) -> bytes | None:
    """Read what `bytes_shape` wrote; ValueError for anything else."""
    if shape is None:
        return None
    if isinstance(shape, str):
        return shape.encode()
    if isinstance(shape, dict):
        fields = cast(dict[str, object], shape)
        packed = fields.get("base64")
        if len(fields) == 1 and isinstance(packed, str):
            return b64decode(packed, validate=True)
    raise ValueError("expected a string, null, or an object with the one field base64")


def time_text(timestamp: int) -> str:
    """A timestamp in ISO 8601, UTC, to the millisecond; `-` for none or for one beyond the calendar."""
    if timestamp < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return "-"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp % 1000:03d}Z"


def counted(count: int, thing: str) -> str:
    """A number of things, such as `1 record` and `2 records`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def size_text(count: float) -> str:
    """A number of bytes as people read it, such as `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
