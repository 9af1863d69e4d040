"""Java's properties format, as far as server.properties files use it, and its errors."""

from everlog.model.errors import ConfigError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the keys and values of a properties text; a key given twice is a ConfigError.

    Comments begin with `#` or `!`, a backslash at the end joins the next line, and `=`, `:` or a
    blank divides key from value. Java takes the last of two values in silence; that hides mistakes.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        if key in found:
            # Not the values: one may be a password.
            raise ConfigError(f"{key} is given twice, expected it once")
        found[key] = value
    return found


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    joined = ""
    for raw in text.splitlines():
        line = raw.lstrip()
        if not joined and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined += line[:-1]
            continue
        lines.append(joined + line)
        joined = ""
    if joined:
        lines.append(joined)
    return lines


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=: \t":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(" \t")
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(" \t")
    key = _unescape(line[:end], line[:end])
    return key, _unescape(rest.rstrip(), key)


def _unescape(text: str, key: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\" or at + 1 == len(text):
            parts.append(text[at])
            at += 1
        elif text[at + 1] == "u":
            try:
                parts.append(chr(int(text[at + 2 : at + 6], 16)))
            except ValueError:
                raise ConfigError(f"{key} has \\u without four hexadecimal digits behind it") from None
            at += 6
        else:
            parts.append(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
    return "".join(parts)
