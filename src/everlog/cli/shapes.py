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


def span_text(milliseconds: int) -> str:
    """A span of time in its two largest units, such as `0s`, `0.4s`, `42s`, `3m05s`, `2h10m` and `4d03h`."""
    if 0 < milliseconds < 10_000:
        return f"{max(0.1, milliseconds / 1000):.1f}s"
    seconds = milliseconds // 1000
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3_600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    if seconds < 86_400:
        return f"{seconds // 3_600}h{seconds % 3_600 // 60:02d}m"
    return f"{seconds // 86_400}d{seconds % 86_400 // 3_600:02d}h"
