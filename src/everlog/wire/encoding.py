"""Makes the function that writes one version of one message: straight-line code, one `struct` call for a run.

Arrays of fixed-size primitives go into the run too, so that a partition with its replica lists is one call.
Lengths in flexible versions take one byte nearly always; a run with a longer one goes to `pack_long`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from everlog.model.ids import NO_UUID
from everlog.wire import primitives
from everlog.wire.schema import Field, Schema, Struct
from everlog.wire.source import LETTERS, Source

_NAMESPACE: Final[Mapping[str, object]] = {
    "NO_UUID": NO_UUID,
    "pack_long": primitives.pack_long,
    "uvarint": primitives.uvarint,
    "explained": primitives.explained,
    "no_such_field": primitives.no_such_field,
    "UnencodableError": primitives.UnencodableError,
}

_AS_BYTES: Final[Mapping[str, str]] = {"string": "{}.encode()", "explanation": "explained({})"}


class _Item(NamedTuple):
    """A part of the run: form and arguments for `struct` and for `pack_long`, and when the first will do."""

    form: str
    value: str
    long_form: str
    long_value: str
    short_if: str
    field: str
    elements: str = ""
    """For an array, the variable with its count, which decides on the form."""


def encoder_source(schema: Schema, version: int) -> Source:
    """Return `encode(message, write) -> None`, not yet compiled; `write` takes the pieces in order."""
    maker = _Maker(schema, version)
    maker.struct(schema.body, "m", "")
    maker.flush()
    maker.out.line("return")
    return maker.out


class _Maker:
    def __init__(self, schema: Schema, version: int) -> None:
        self.version = version
        self.flexible = schema.is_flexible(version)
        self.out = Source("encode(m, w)", dict(_NAMESPACE))
        self.writer = "w"
        self.run: list[_Item] = []
        """What is next on the wire and not yet written."""

    def put(self, letter: str, value: str) -> None:
        """Put a fixed-size value into the run."""
        self.run.append(_Item(letter, value, "u" if letter == "16s" else letter, value, "", self.out.field))

    def put_zero(self) -> None:
        """Put a zero byte into the run."""
        self.run.append(_Item("x", "", "x", "", "", self.out.field))

    def put_varint(self, name: str, long_form: str) -> None:
        """Put a varint into the run."""
        self.run.append(_Item("B", name, long_form, name, f"{name} < 128", self.out.field))

    def flush(self) -> None:
        """Emit one call that writes the whole run."""
        if not self.run:
            return
        run, self.run = self.run, []
        field = run[0].field if run[0].field == run[-1].field else f"{run[0].field} to {run[-1].field}"
        form = "".join(item.form for item in run)
        values = ", ".join(item.value for item in run if item.value)
        if form == "x":
            call = r"b'\0'"
        elif counts := [item.elements for item in run if item.elements]:
            packers = self.out.bind("k", primitives.ArrayPackers(form, 1 if self.flexible else 0))
            call = f"{packers}[{', '.join(counts)},]({values})"
        else:
            call = f"{self.out.packer(form, 'pack')}({values})"
        short = " and ".join(item.short_if for item in run if item.short_if)
        if short:
            long_form = "".join(item.long_form for item in run)
            long_values = ", ".join(item.long_value for item in run if item.long_value)
            call = f"{call} if {short} else pack_long('{long_form}', {long_values})"
        self.out.line(f"{self.writer}({call})", field)

    def struct(self, struct: Struct, source: str, path: str) -> None:
        """Emit the writing of a struct."""
        tagged: list[Field] = []
        for field in struct.fields:
            self.out.field = f"{path}.{field.name}" if path else field.name
            value = f"{source}.{field.name}"
            if not field.versions.has(self.version):
                if not field.ignorable:
                    self.out.line(f"if {_differs(field, value)}: raise no_such_field({value})")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.field(field, value)
        self.out.field = path
        if not self.flexible:
            return
        if tagged:
            self.tags(sorted(tagged, key=lambda field: field.tag or 0), source, path)
        else:
            self.put_zero()

    def field(self, field: Field, value: str) -> None:
        """Emit the writing of one field that this version has."""
        if field.array:
            self.array(field, value)
        elif field.struct is not None:
            self.nested(field, field.struct, value)
        elif field.type == "uuid":
            self.out.line(f"if len({value}) != 16: raise UnencodableError(f'{{{value}!r}} is not 16 bytes')")
            self.put("16s", value)
        elif field.type in LETTERS:
            self.put(LETTERS[field.type], value)
        else:
            # What explains an error may quote what was sent, and is cut rather than not told.
            kind = "explanation" if field.name == "error_message" else field.type
            self.text(kind, self.flexible and not field.classic, field.may_be_null(self.version), value)

    def text(self, type_name: str, compact: bool, nullable: bool, value: str) -> None:
        """Emit the writing of a string, an explanation, bytes or records."""
        out = self.out
        data, length = out.name("d"), out.name("n")
        source = _AS_BYTES.get(type_name, "{}").format(value)
        if nullable:
            out.line(f"if {value} is None: {data} = b''; {length} = {0 if compact else -1}")
            out.line(f"else: {data} = {source}; {length} = len({data}){' + 1' if compact else ''}")
        else:
            out.line(f"{data} = {source}; {length} = len({data}){' + 1' if compact else ''}")
        if compact:
            self.put_varint(length, "U" if type_name in ("bytes", "records") else "S")
        else:
            self.put("i" if type_name in ("bytes", "records") else "h", length)
        self.flush()
        out.line(f"{self.writer}({data})")

    def nested(self, field: Field, struct: Struct, value: str) -> None:
        """Emit the writing of a single struct, which may be null (KIP-893)."""
        out = self.out
        path = out.field
        inner = out.name("s")
        out.line(f"{inner} = {value}")
        if not field.may_be_null(self.version):
            self.struct(struct, inner, path)
            return
        self.flush()
        # A tagged struct has a varint for its marker, 0 if null; any other an int8, -1 if null.
        null = b"\0" if field.tag is not None else b"\xff"
        out.line(f"if {inner} is None: {self.writer}({null!r})")
        out.line("else:")
        out.indent()
        self.put("b", "1")
        self.struct(struct, inner, path)
        self.flush()
        out.indent(-1)
        out.field = path

    def array(self, field: Field, value: str) -> None:
        """Emit the writing of an array."""
        out = self.out
        path = out.field
        items, count = out.name("a"), out.name("n")
        nullable = field.may_be_null(self.version)
        fixed = field.struct is None and field.type in LETTERS and field.type != "uuid"
        out.line(f"{items} = {value}")
        plus = " + 1" if self.flexible else ""
        if nullable:
            out.line(f"if {items} is None: {items} = (); {count} = {0 if self.flexible else -1}")
            out.line(f"else: {count} = len({items}){plus}")
        else:
            out.line(f"{count} = len({items}){plus}")
        if fixed:
            self.fixed_array(field.type, items, count, value)
            return
        if self.flexible:
            self.put_varint(count, "U")
        else:
            self.put("i", count)
        self.flush()
        if field.type == "uuid":
            out.line(
                f"if any(len(u) != 16 for u in {items}): raise UnencodableError('an id is not 16 bytes')"
            )
            out.line(f"{self.writer}(b''.join({items}))")
            return
        item = out.name("i")
        out.line(f"for {item} in {items}:")
        out.indent()
        if field.struct is not None:
            self.struct(field.struct, item, path)
        else:
            self.text(field.type, self.flexible, False, item)
        self.flush()
        out.indent(-1)
        out.field = path

    def fixed_array(self, type_name: str, items: str, count: str, value: str) -> None:
        """Put an array of fixed-size primitives into the run, count and all."""
        letter = LETTERS[type_name]
        field = self.out.field
        values = f"{count}, *{items}"
        if self.flexible:
            short_if = f"{count} < 128"
            self.run.append(_Item(f"B{{}}{letter}", values, f"#{letter}", value, short_if, field, count))
        else:
            self.run.append(_Item(f"i{{}}{letter}", values, "", "", "", field, count))

    def tags(self, fields: list[Field], source: str, path: str) -> None:
        """Emit the section of tagged fields that ends a struct: those that are not at their default."""
        out = self.out
        count, section = out.name("k"), out.name("g")
        # The fields before them are written first, and the tagged ones into a piece of their own.
        self.flush()
        out.line(f"{count} = 0; {section} = b''")
        for field in fields:
            out.field = f"{path}.{field.name}" if path else field.name
            value = f"{source}.{field.name}"
            out.line(f"if {_differs(field, value)}:")
            out.indent()
            data, pieces, outer = out.name("d"), out.name("p"), self.writer
            self.writer = f"{pieces}.append"
            out.line(f"{pieces} = []")
            self.field(field, value)
            self.flush()
            self.writer = outer
            out.line(f"{data} = b''.join({pieces})")
            out.line(
                f"{section} += {bytes((field.tag or 0,))!r} + uvarint(len({data})) + {data}; {count} += 1"
            )
            out.indent(-1)
        out.field = path
        self.put("B", count)
        self.flush()
        out.line(f"if {count}: {self.writer}({section})")


def _differs(field: Field, value: str) -> str:
    """Return a condition that holds if the value is not the field's default."""
    if field.default == "None":
        return f"{value} is not None"
    if field.struct is None or field.array:
        return f"{value} != {field.default}"
    within = [_differs(inner, f"{value}.{inner.name}") for inner in field.struct.fields]
    null = [f"{value} is None"] if field.nullable is not None else []
    return " or ".join([*null, *within])
