"""Writes `wire/messages/` and `wire/api_keys.py` from the schemas: `python -m everlog.wire.generate`.

The result is committed, so that type checkers and readers see it; a test fails when it is stale.
"""

import re
import sys
from pathlib import Path

from everlog.wire.schema import Field, Schema, SchemaError, Struct
from everlog.wire.schemas import all_schemas

WIDTH = 110
_NOTE = "Made from everlog.wire.schemas by `python -m everlog.wire.generate`; never edited."

_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
    "uuid": "Uuid",
}


def module_of(schema: Schema) -> str:
    """Return the module that holds the class: one for request and answer, one for key and value."""
    name = schema.name.replace("KRaft", "Kraft")
    match schema.kind:
        case "request" | "response":
            name = re.sub("(Request|Response)$", "", name)
        case "key" | "value":
            name = re.sub("(Key|Value)$", "Record", name)
        case _:
            pass
    return _snake(name)


def generate() -> dict[str, str]:
    """Return the content of every generated file, by its path below `everlog/wire`."""
    modules: dict[str, list[tuple[str, Schema]]] = {}
    for family, schema in all_schemas():
        modules.setdefault(module_of(schema), []).append((family, schema))
    files = {f"messages/{name}.py": _module(members) for name, members in sorted(modules.items())}
    files["messages/__init__.py"] = _MESSAGES_INIT
    files["api_keys.py"] = _api_keys([schema for _, schema in all_schemas()])
    return files


_MESSAGES_INIT = f'''"""The messages of the protocol as classes, one module an API or record.

{_NOTE}
Fields bear Kafka's names in snake_case and Kafka's defaults; how they look on the wire is not known here.
Handlers, clients and logs make and read them; `wire.codec` turns them into bytes.
A class has the fields of all versions; a field that a version lacks is at its default after decoding.
"""
'''


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _module(members: list[tuple[str, Schema]]) -> str:
    structs: dict[str, Struct] = {}
    body: list[str] = []
    for family, schema in members:
        # Inner structs first, as Python reads from above.
        for struct in reversed(schema.structs):
            if struct.name not in structs:
                structs[struct.name] = struct
                body += _class(struct, None, None)
            elif structs[struct.name] != struct:
                raise SchemaError(f"{schema.name}: another struct {struct.name} is in the same module")
        body += _class(schema.body, family, schema.key)
    code = "\n".join(body)
    names = [name for name in ("EMPTY", "Message", "Records", "Structure") if re.search(rf"\b{name}\b", code)]
    ids = [name for name in ("NO_UUID", "Uuid") if re.search(rf"\b{name}\b", code)]
    imports = ["from typing import ClassVar", ""]
    if ids:
        imports.append(f"from everlog.model.ids import {', '.join(ids)}")
    imports.append(f"from everlog.wire.message import {', '.join(names)}")
    title = " and ".join(schema.name for _, schema in members)
    head = [
        f'"""{title}.',
        "",
        _NOTE,
        '"""',
        "",
    ]
    if any(names != sorted(names) for names in _slot_names(members)):
        head.insert(0, "# ruff: noqa: RUF023  (slots stand in the order of the wire)")
    return "\n".join([*head, "from __future__ import annotations", "", *imports, *body, ""])


def _slot_names(members: list[tuple[str, Schema]]) -> list[list[str]]:
    structs = [struct for _, schema in members for struct in (schema.body, *schema.structs)]
    return [[field.name for field in struct.fields] for struct in structs]


def _class(struct: Struct, family: str | None, key: int | None) -> list[str]:
    lines = ["", "", f"class {struct.name}({'Structure' if family is None else 'Message'}):"]
    lines += [f"    {line}" for line in _slots(struct)]
    if family is not None:
        lines += [f'    FAMILY: ClassVar[str] = "{family}"']
    if key is not None:
        lines += [f"    KEY: ClassVar[int | None] = {key}"]
    if not struct.fields:
        return lines
    lines += ["", "    def __init__(", "        self,", "        *,"]
    for field in struct.fields:
        default = "EMPTY" if _is_mutable(field) else field.default
        lines.append(f"        {field.name}: {_annotation(field)} = {default},")
    lines.append("    ) -> None:")
    for field in struct.fields:
        lines += [f"        {line}" for line in _assignment(field)]
    return lines


def _slots(struct: Struct) -> list[str]:
    names = [f'"{field.name}"' for field in struct.fields]
    line = f"__slots__ = ({', '.join(names)}{',' if len(names) == 1 else ''})"
    if len(line) + 4 <= WIDTH:
        return [line]
    return ["__slots__ = (", *(f"    {name}," for name in names), ")"]


def _is_mutable(field: Field) -> bool:
    return field.default.endswith(("[]", "()"))


def _annotation(field: Field) -> str:
    name = field.type if field.struct is not None else _TYPES.get(field.type, "int")
    if field.array:
        name = f"list[{name}]"
    return name if field.nullable is None else f"{name} | None"


def _assignment(field: Field) -> list[str]:
    name = field.name
    if not _is_mutable(field):
        return [f"self.{name} = {name}"]
    target = f"self.{name}: {_annotation(field)} = "
    value = f"{field.default} if {name} is EMPTY else {name}"
    if len(target) + len(value) + 8 <= WIDTH:
        return [target + value]
    return [f"{target}(", f"    {value}", ")"]


def _api_keys(schemas: list[Schema]) -> str:
    requests = sorted(
        (schema for schema in schemas if schema.kind == "request"), key=lambda schema: schema.key or 0
    )
    answers = {schema.key: schema for schema in schemas if schema.kind == "response"}
    lines = ['"""The API keys, and the versions and listeners of each.', "", _NOTE, '"""', ""]
    lines += ["from enum import IntEnum", "", "", "class ApiKey(IntEnum):"]
    lines += ['    """The number that opens a request."""', ""]
    lines += [f"    {module_of(schema).upper()} = {schema.key}" for schema in requests]
    lines += [
        "",
        "",
        "# Key, name, module, first and last version, first flexible one, last is unstable, listeners.",
    ]
    lines += ["TABLE: tuple[tuple[int, str, str, int, int, int, bool, str], ...] = ("]
    for schema in requests:
        answer = answers[schema.key]
        if (answer.versions, answer.flexible) != (schema.versions, schema.flexible):
            raise SchemaError(f"{schema.name} and {answer.name} differ in versions")
        first, last = schema.versions
        flexible = last + 1 if schema.flexible is None else schema.flexible
        listeners = "".join(listener[0] for listener in schema.listeners)
        row = (
            schema.key,
            schema.name[:-7],
            module_of(schema),
            first,
            last,
            flexible,
            schema.last_unstable,
            listeners,
        )
        cells = ", ".join(f'"{cell}"' if isinstance(cell, str) else str(cell) for cell in row)
        lines.append(f"    ({cells}),")
    return "\n".join([*lines, ")", ""])


def main() -> int:
    """Write all generated files, drop those that are no more, and say how many."""
    root = Path(__file__).parent
    files = generate()
    (root / "messages").mkdir(exist_ok=True)
    for old in (root / "messages").glob("*.py"):
        if f"messages/{old.name}" not in files:
            old.unlink()
    for path, content in files.items():
        (root / path).write_text(content, encoding="utf-8")
    sys.stdout.write(f"wrote {len(files)} files below {root}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
