"""Files of `key=value` lines, as Kafka's server.properties are written."""

from everlog.model.errors import ConfigError


def read_properties(path: str) -> dict[str, str]:
    """Read a properties file; a line that is neither a pair, nor a comment, nor blank is a ConfigError."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text: byte {error.start} is not UTF-8") from None
    return parse_properties(text, path)


def parse_properties(text: str, source: str) -> dict[str, str]:
    """Read pairs separated by `=` or `:`; `#` and `!` begin comments, a backslash continues a line.

    A key that comes twice is a ConfigError: one of the two would be ignored without a word.
    """
    pairs: dict[str, str] = {}
    for number, line in _logical_lines(text):
        places = [place for place in (line.find("="), line.find(":")) if place >= 0]
        if not places:
            raise ConfigError(f"{source} line {number} is {line!r}: expected key=value")
        key, value = line[: min(places)].strip(), line[min(places) + 1 :].strip()
        if not key:
            raise ConfigError(f"{source} line {number} has no key before its '='")
        if key in pairs:
            raise ConfigError(f"{source} line {number} sets {key} again: expected each setting once")
        pairs[key] = value
    return pairs


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """The lines that say something, continuations joined, each with the number of its first line."""
    lines: list[tuple[int, str]] = []
    open_line: tuple[int, str] | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        first, before = open_line if open_line is not None else (number, "")
        if open_line is None and (not line or line[0] in "#!"):
            continue
        if line.endswith("\\"):
            open_line = (first, before + line[:-1])
            continue
        lines.append((first, before + line))
        open_line = None
    if open_line is not None:
        lines.append(open_line)
    return lines
