"""New projects from templates."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from everlog.model.errors import ConfigError
from everlog.pipelines.project import EXTRAS_NAME, SPEC_NAMES, Project, load_project

TEMPLATES = Path(__file__).parent / "templates"
DEFAULT_TEMPLATE = "starter"
_DECLARATION = "template.toml"
_NAME_LINE = re.compile(r"^name:.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Template:
    """A directory that new projects are made from."""

    name: str
    title: str
    description: str
    root: Path
    topics: tuple[str, ...]


def templates() -> list[Template]:
    """All templates, by name; the one that is used if none is asked for comes first."""
    found = [_read(path) for path in TEMPLATES.iterdir() if (path / _DECLARATION).is_file()]
    return sorted(found, key=lambda template: (template.name != DEFAULT_TEMPLATE, template.name))


def create_project(target: Path, template_name: str = DEFAULT_TEMPLATE) -> Project:
    """Make a project at a path that does not exist yet (or is an empty directory), named after it.

    ConfigError if the template or the place will not do; then nothing was written.
    """
    known = {template.name: template for template in templates()}
    template = known.get(template_name)
    if template is None:
        raise ConfigError(f"there is no template {template_name!r}: expected one of {', '.join(known)}")
    name = target.absolute().name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ConfigError(f"project name {name!r} will not do: expected letters, digits, '-', '_' and '.'")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target} exists and is not empty: choose another name, or remove it")
    for source in _files(template.root):
        relative = source.relative_to(template.root)
        if str(relative) == _DECLARATION:
            relative = Path(EXTRAS_NAME)
        destination = target / relative
        destination.parent.mkdir(parents=True, exist_ok=True)
        content = source.read_bytes()
        if relative.name in SPEC_NAMES:
            content = _NAME_LINE.sub(f"name: {name}", content.decode(), count=1).encode()
        destination.write_bytes(content)
    return load_project(next(target.absolute() / spec for spec in SPEC_NAMES if (target / spec).is_file()))


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        # What Python made while the template was tried is not part of it.
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            yield path


def _read(root: Path) -> Template:
    declared = tomllib.loads((root / _DECLARATION).read_text("utf-8"))
    return Template(
        name=root.name,
        title=str(declared.get("title", root.name)),
        description=str(declared.get("description", "")),
        root=root,
        topics=tuple(str(topic["name"]) for topic in declared.get("topics", [])),
    )
