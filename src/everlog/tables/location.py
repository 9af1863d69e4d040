"""Where a table, a checkpoint or a storage is, spelled as Spark spells it."""

from pathlib import Path

_HADOOP_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""What Hadoop, and so Spark, calls a file system that all others have another name for."""


def local_path(location: str) -> Path | None:
    """The path of a place in this machine's files; None for one elsewhere, such as `s3://…`.

    A `file:` URI is taken to the letter, as Spark does: `%20` in it is no blank, and `#` ends nothing.
    """
    if location.startswith("file:"):
        rest = location.removeprefix("file:")
        return Path(rest[2:] if rest.startswith("//") else rest)
    scheme, mark, _ = location.partition(":/")
    # One letter is the drive of a path.
    return None if mark and len(scheme) > 1 and "/" not in scheme else Path(location)


def local_uri(path: Path) -> str:
    """The way back, for an absolute path."""
    return f"file://{path}"


def for_libraries(location: str) -> str:
    """A URI with the scheme that libraries other than Hadoop's know."""
    scheme, mark, rest = location.partition("://")
    return f"{_HADOOP_SCHEMES.get(scheme, scheme)}{mark}{rest}"
