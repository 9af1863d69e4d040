"""A pipeline project: a directory with `spark-pipeline.yml`, its files, and what `everlog.toml` adds."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from everlog.model.errors import ConfigError
from everlog.tables.location import local_path, local_uri

SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
EXTRAS_NAME = "everlog.toml"
BOOTSTRAP_KEY = "everlog.bootstrap.servers"
STORAGE_KEY = "everlog.storage"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

_FIELDS = ("name", "storage", "libraries", "catalog", "database", "schema", "configuration")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that the project needs, and the sample data for it."""

    name: str
    partitions: int = 1
    configs: Mapping[str, str] = field(default_factory=dict[str, str])
    data: Path | None = None
    """Absolute; a `.jsonl` or `.py` file."""


@dataclass(frozen=True, slots=True)
class Project:
    """What the files of a project say, checked."""

    root: Path
    """Absolute."""
    spec_path: Path
    name: str
    storage: str
    """A URI; a storage that was given as a path is below `root`, as `file:…`."""
    libraries: tuple[str, ...]
    catalog: str | None = None
    database: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict[str, str])
    title: str = ""
    description: str = ""
    topics: tuple[Topic, ...] = ()

    @property
    def local_storage(self) -> Path | None:
        """The storage as a directory of this machine, or None if it is elsewhere (S3, HDFS)."""
        return local_path(self.storage)

    @property
    def state(self) -> Path:
        """Where the catalog, the lock and what is known of runs are: in the storage, if that is here."""
        return self.local_storage or self.root / ".everlog"

    @property
    def bootstrap(self) -> str:
        """The servers that the project names, if neither the command line nor the environment does."""
        return self.configuration.get(BOOTSTRAP_KEY, DEFAULT_BOOTSTRAP)

    def stream_files(self) -> list[Path]:
        """The files of flows on Structured Streaming, in the order of their names."""
        return sorted((self.root / "streams").glob("*.py"))

    def declared_files(self) -> list[Path]:
        """The files of declared flows, as `libraries` finds them."""
        found: set[Path] = set()
        for pattern in self.libraries:
            # Spark's rule: a file, or a folder with all below it.
            wanted = f"{pattern}/*" if pattern.endswith("/**") else pattern
            found.update(path for path in self.root.glob(wanted) if path.is_file())
        return sorted(path for path in found if "__pycache__" not in path.parts)


def find_project(given: Path) -> Project:
    """Load the project at a directory, or at its yml file; without one there, the nearest directory above.

    ConfigError names the file and what is wrong in it.
    """
    if given.is_file():
        return load_project(given.absolute())
    if not given.is_dir():
        raise ConfigError(f"project {str(given)!r} does not exist: expected a directory with {SPEC_NAMES[0]}")
    here = given.absolute()
    for directory in (here, *here.parents):
        found = [directory / name for name in SPEC_NAMES if (directory / name).is_file()]
        if len(found) > 1:
            raise ConfigError(f"{directory} has both {' and '.join(SPEC_NAMES)}: expected one of them")
        if found:
            return load_project(found[0])
    raise ConfigError(
        f"no {SPEC_NAMES[0]} in {here} nor above it: `everlog pipeline init NAME` makes a project"
    )


def load_project(spec_path: Path) -> Project:
    """Read and check one project's files."""
    root = spec_path.parent
    spec = _read_spec(spec_path)
    title, description, topics = _read_extras(root / EXTRAS_NAME)
    storage = _text(spec, "storage", spec_path)
    project = Project(
        root=root,
        spec_path=spec_path,
        name=_text(spec, "name", spec_path),
        storage=storage if "://" in storage or storage.startswith("file:") else local_uri(root / storage),
        libraries=_libraries(spec.get("libraries") or [], spec_path),
        catalog=_optional_text(spec, "catalog", spec_path),
        database=_optional_text(spec, "database", spec_path) or _optional_text(spec, "schema", spec_path),
        configuration=_configuration(spec.get("configuration") or {}, spec_path),
        title=title,
        description=description,
        topics=topics,
    )
    declared = project.declared_files()
    if not declared and not project.stream_files():
        raise ConfigError(
            f"{spec_path} has no flow: expected .py or .sql files where `libraries` points "
            f"({', '.join(project.libraries) or 'it names none'}), or streams/*.py"
        )
    if declared:
        _check_declared_storage(project)
    for path in declared:
        if path.suffix not in (".py", ".sql"):
            raise ConfigError(f"{path} is in `libraries` and cannot be run: expected .py or .sql")
    return project


def _check_declared_storage(project: Project) -> None:
    # Spark turns the place of a declared flow's checkpoint into a URI and then takes that for a path: the
    # checkpoint would be in a directory `my%20project`, where a refresh does not look for it.
    signs = [sign for sign in ' %#?"<>[\\]^`{|}' if sign in str(project.local_storage or "")]
    if signs:
        raise ConfigError(
            f"{project.spec_path}: the storage is {str(project.local_storage)!r}, expected a path without "
            f"{signs[0]!r}, in which Spark loses the checkpoints of declared flows: name another as "
            "`storage`, or move the project"
        )


def _read_spec(path: Path) -> dict[str, Any]:
    import yaml  # comes with the extra `spark`; who runs a pipeline has it

    try:
        read: object = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise ConfigError(f"{path}{where} cannot be read: {problem}") from None
    if not isinstance(read, dict):
        raise ConfigError(f"{path} cannot be read: expected fields such as `name: …` and `storage: …`")
    spec = cast(dict[str, Any], read)
    for key in spec:
        if key not in _FIELDS:
            raise ConfigError(f"{path} has the field {key!r}: expected {', '.join(_FIELDS)}")
    return spec


def _text(spec: Mapping[str, Any], key: str, path: Path) -> str:
    value = spec.get(key)
    if value is None:
        raise ConfigError(f"{path} has no {key!r}: it is needed")
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{path}: {key!r} is {value!r}, expected text")
    return value


def _optional_text(spec: Mapping[str, Any], key: str, path: Path) -> str | None:
    return None if spec.get(key) is None else _text(spec, key, path)


def _libraries(entries: object, path: Path) -> tuple[str, ...]:
    expected = "expected a list of `- glob: {include: transformations/**}`"
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: libraries is {entries!r}, {expected}")
    patterns: list[str] = []
    for entry in cast(list[object], entries):
        try:
            pattern = cast(Any, entry)["glob"]["include"]
        except (TypeError, KeyError):
            raise ConfigError(f"{path}: libraries has {entry!r}, {expected}") from None
        plain = str(pattern).removesuffix("/**")
        if not isinstance(pattern, str) or any(sign in plain for sign in "*?["):
            raise ConfigError(f"{path}: libraries has {pattern!r}, expected a file, or a folder as folder/**")
        patterns.append(pattern)
    return tuple(patterns)


def _configuration(given: object, path: Path) -> dict[str, str]:
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: configuration is {given!r}, expected lines of `key: value`")
    settings: dict[str, str] = {}
    for key, value in cast(dict[object, object], given).items():
        # What is no text is refused, as Spark does: `yes` and `1e3` would change their spelling on the way.
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigError(
                f"{path}: configuration {key!r} is {value!r}, expected text: put it in quotes, '{value}'"
            )
        settings[key] = value
    return settings


def _read_extras(path: Path) -> tuple[str, str, tuple[Topic, ...]]:
    if not path.is_file():
        return "", "", ()
    try:
        read = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    entries = read.get("topics", [])
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: topics is {entries!r}, expected [[topics]] with a name")
    topics = tuple(_topic(entry, path) for entry in cast(list[object], entries))
    return str(read.get("title", "")), str(read.get("description", "")), topics


def _topic(entry: object, path: Path) -> Topic:
    fields = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
    name: object = fields.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{path}: topics has {entry!r}, expected a table with a name")
    partitions: object = fields.get("partitions", 1)
    if not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1:
        raise ConfigError(f"{path}: topic {name} has partitions {partitions!r}, expected a number from 1")
    configs = fields.get("configs", {})
    if not isinstance(configs, dict):
        raise ConfigError(f"{path}: topic {name} has configs {configs!r}, expected {{ key = value }}")
    data = None
    if (given := fields.get("data")) is not None:
        data = path.parent / str(given)
        if not data.is_file() or data.suffix not in (".jsonl", ".py"):
            raise ConfigError(
                f"{path}: topic {name} has data {given!r}, expected a .jsonl or .py file that exists"
            )
    settings = {str(key): str(value) for key, value in cast(dict[object, object], configs).items()}
    return Topic(name, partitions, settings, data)
