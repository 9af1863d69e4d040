"""Makes the function that reads one version of one message: straight-line code, no call a field.

Runs of fixed-size fields become one `struct` call, and the first byte of the length or tag count that follows
them is read along. Every count and length is checked before anything is made of it, as `wire.codec` promises.
"""

import struct as structs
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from everlog.model.ids import NO_UUID
from everlog.wire import primitives
from everlog.wire.schema import Field, Schema, Struct
from everlog.wire.source import LETTERS, SIZES, Source

_NAMESPACE: Final[Mapping[str, object]] = {
    "NO_UUID": NO_UUID,
    "new": object.__new__,
    "unpack_from": structs.unpack_from,
    "more": primitives.read_uvarint,
    "skip_tags": primitives.skip_tags,
    "tag_count": primitives.read_tag_count,
    "read_tag": primitives.read_tag,
    "too_many": primitives.too_many,
    "bad_length": primitives.bad_length,
    "unexpected_null": primitives.unexpected_null,
    "Malformed": primitives.Malformed,
}


_SHORT: Final = 16
"""Arrays of primitives below this length have an unpacker ready: replica lists and the like."""


@cache
def _short_arrays(letter: str) -> tuple[Callable[..., tuple[object, ...]], ...]:
    return tuple(structs.Struct(f">{count}{letter}").unpack_from for count in range(_SHORT))


def reads_views(schema: Schema, version: int) -> bool:
    """Whether the message holds records, which stay in the frame: its decoder must be given a memoryview."""
    fields = [field for struct in (schema.body, *schema.structs) for field in struct.fields]
    return any(field.type == "records" and field.versions.has(version) for field in fields)


def decoder_source(schema: Schema, version: int, class_of: Callable[[str], type]) -> Source:
    """Return `decode(buffer, at, budget) -> (message, position after it)`, not yet compiled.

    The buffer is bytes, or a memoryview if `reads_views`, and ends where the frame ends.
    """
    maker = _Maker(schema, version, class_of)
    maker.out.line("size = len(buf)")
    maker.struct(schema.body, "m", "")
    maker.flush()
    maker.out.line("return m, at")
    return maker.out


class _Maker:
    def __init__(self, schema: Schema, version: int, class_of: Callable[[str], type]) -> None:
        self.version = version
        self.flexible = schema.is_flexible(version)
        self.views = reads_views(schema, version)
        self.class_of = class_of
        self.out = Source("decode(buf, at, budget)", dict(_NAMESPACE))
        self.run: list[tuple[str, str, str]] = []
        """Fixed-size values that are next on the wire and not yet read: letter, target, field."""

    def read(self, letter: str, target: str) -> None:
        """Put a fixed-size value into the run."""
        self.run.append((letter, target, self.out.field))

    def flush(self) -> None:
        """Emit one call that reads the whole run."""
        if not self.run:
            return
        run, self.run = self.run, []
        form = "".join(letter for letter, _, _ in run)
        field = run[0][2] if run[0][2] == run[-1][2] else f"{run[0][2]} to {run[-1][2]}"
        if form == "B":
            self.out.line(f"{run[0][1]} = buf[at]", field)
            self.out.line("at += 1", field)
            return
        targets = ", ".join(target for _, target, _ in run)
        unpack = self.out.packer(form, "unpack_from")
        self.out.line(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(buf, at)", field)
        self.out.line(f"at += {structs.calcsize('>' + form)}", field)

    def struct(self, struct: Struct, target: str, path: str) -> None:
        """Emit the reading of a struct into a new variable."""
        self.out.line(f"{target} = new({self.out.bind('C', self.class_of(struct.name))})", path)
        tagged: list[Field] = []
        for field in struct.fields:
            self.out.field = f"{path}.{field.name}" if path else field.name
            attribute = f"{target}.{field.name}"
            if not field.versions.has(self.version):
                self.default(field, attribute)
            elif field.tag is not None:
                self.default(field, attribute)
                tagged.append(field)
            else:
                self.field(field, attribute)
        self.out.field = path
        if self.flexible:
            self.tags(sorted(tagged, key=lambda field: field.tag or 0), target, path)

    def default(self, field: Field, attribute: str) -> None:
        """Emit the default of a field that is not there."""
        value = field.default
        if field.struct is not None and value.endswith("()"):
            value = self.out.bind("C", self.class_of(field.struct.name)) + "()"
        self.out.line(f"{attribute} = {value}")

    def tags(self, fields: list[Field], target: str, path: str) -> None:
        """Emit the section of tagged fields that ends a struct."""
        out = self.out
        count = out.name("t")
        self.read("B", count)
        self.flush()
        if not fields:
            out.line(f"if {count}: at, budget = skip_tags(buf, at, {count}, budget)")
            return
        tag, stop = out.name("tag"), out.name("stop")
        out.line(f"if {count}:")
        out.indent()
        out.line(f"{count}, at, budget = tag_count(buf, at, {count}, budget)")
        out.line(f"{tag} = -1")
        out.line(f"for _ in range({count}):")
        out.indent()
        out.line(f"{tag}, at, {stop} = read_tag(buf, at, {tag})")
        for index, field in enumerate(fields):
            out.field = f"{path}.{field.name}" if path else field.name
            out.line(f"{'elif' if index else 'if'} {tag} == {field.tag}:")
            out.indent()
            self.field(field, f"{target}.{field.name}")
            self.flush()
            out.line(f"if at != {stop}: raise Malformed(f'its size says {{{stop} - at}} bytes more')")
            out.indent(-1)
        out.line("else:")
        out.line(f" at = {stop}")
        out.indent(-2)
        out.field = path

    def field(self, field: Field, attribute: str) -> None:
        """Emit the reading of one field that is there."""
        if field.array:
            self.array(field, attribute)
        elif field.struct is not None:
            self.nested(field, field.struct, attribute)
        elif field.type in LETTERS:
            self.read(LETTERS[field.type], attribute)
        else:
            self.text(
                field.type, self.flexible and not field.classic, field.may_be_null(self.version), attribute
            )

    def nested(self, field: Field, struct: Struct, attribute: str) -> None:
        """Emit the reading of a single struct, which may be null (KIP-893)."""
        out = self.out
        path = out.field
        inner = out.name("s")
        if not field.may_be_null(self.version):
            self.struct(struct, inner, path)
            out.line(f"{attribute} = {inner}", path)
            return
        marker = out.name("n")
        # A tagged struct has a varint for its marker, 0 if null; any other an int8, -1 if null.
        null = "0" if field.tag is not None else "-1"
        self.read("B" if field.tag is not None else "b", marker)
        self.flush()
        out.line(f"if {marker} == {null}: {attribute} = None")
        out.line(f"elif {marker} != 1: raise Malformed(f'marker {{{marker}}} is neither null nor present')")
        out.line("else:")
        out.indent()
        self.struct(struct, inner, path)
        self.flush()
        out.line(f"{attribute} = {inner}", path)
        out.indent(-1)
        out.field = path

    def length(self, compact: bool, classic_letter: str) -> str:
        """Emit the reading of a length and return its variable; a compact one is 1 too high, 0 is null."""
        name = self.out.name("n")
        self.read("B" if compact else classic_letter, name)
        self.flush()
        if compact:
            self.out.line(f"if {name} > 127: {name}, at = more(buf, at, {name})")
        return name

    def null(self, compact: bool, nullable: bool, length: str, attribute: str) -> None:
        """Emit what a null length means, and an `else` for all others."""
        out = self.out
        out.line(f"if {length} == {'0' if compact else '-1'}:")
        out.line(f" {attribute} = None" if nullable else " raise unexpected_null()")
        out.line("else:")

    def text(self, type_name: str, compact: bool, nullable: bool, attribute: str) -> None:
        """Emit the reading of a string, bytes or records."""
        out = self.out
        length = self.length(compact, "h" if type_name == "string" else "i")
        self.null(compact, nullable, length, attribute)
        out.indent()
        stop = out.name("e")
        out.line(f"{stop} = at + {length}{' - 1' if compact else ''}")
        limits = [f"{stop} > size"]
        if not compact:
            limits.append(f"{length} < 0")
        elif type_name == "string":
            limits.append(f"{length} > {primitives.MAX_STRING + 1}")
        out.line(f"if {' or '.join(limits)}: raise bad_length({stop} - at, size - at)")
        piece = f"buf[at:{stop}]"
        if type_name == "string":
            piece = f"str({piece}, 'utf-8')" if self.views else f"{piece}.decode()"
        elif type_name == "bytes" and self.views:
            piece = f"bytes({piece})"
        out.line(f"{attribute} = {piece}")
        out.line(f"at = {stop}")
        out.indent(-1)

    def array(self, field: Field, attribute: str) -> None:
        """Emit the reading of an array: check its count against what is left, then loop or unpack."""
        out = self.out
        path = out.field
        count = self.length(self.flexible, "i")
        self.null(self.flexible, field.may_be_null(self.version), count, attribute)
        out.indent()
        if self.flexible:
            out.line(f"{count} -= 1")
        least = max(1, self.least(field))
        limits = [
            f"{count} * {least} > size - at" if least > 1 else f"{count} > size - at",
            f"{count} > budget",
        ]
        if not self.flexible:
            limits.append(f"{count} < 0")
        out.line(f"if {' or '.join(limits)}: raise too_many({count}, size - at)")
        out.line(f"budget -= {count}")
        if field.struct is None and field.type in LETTERS:
            self.fixed_array(field.type, count, attribute)
        else:
            items, item = out.name("a"), out.name("i")
            out.line(f"{attribute} = {items} = []")
            out.line(f"for _ in range({count}):")
            out.indent()
            if field.struct is not None:
                self.struct(field.struct, item, path)
            else:
                self.text(field.type, self.flexible, False, item)
            self.flush()
            out.line(f"{items}.append({item})", path)
            out.indent(-1)
        out.indent(-1)
        out.field = path

    def fixed_array(self, type_name: str, count: str, attribute: str) -> None:
        """Emit the reading of an array of fixed-size primitives in one call."""
        out = self.out
        size = SIZES[type_name]
        if type_name == "uuid":
            piece = "buf[p:p + 16]" if not self.views else "bytes(buf[p:p + 16])"
            out.line(f"{attribute} = [{piece} for p in range(at, at + {count} * 16, 16)]")
        else:
            letter = LETTERS[type_name]
            short = out.bind("short", _short_arrays(letter))
            long = f"[*unpack_from(f'>{{{count}}}{letter}', buf, at)]"
            out.line(f"{attribute} = [*{short}[{count}](buf, at)] if {count} < {_SHORT} else {long}")
        out.line(f"at += {count}{f' * {size}' if size > 1 else ''}")

    def least(self, field: Field) -> int:
        """Return the fewest bytes that one element of an array, or a single value, can take."""
        if field.struct is not None:
            return self._least_struct(field.struct)
        if field.type in SIZES:
            return SIZES[field.type]
        return 1 if self.flexible and not field.classic else 2 if field.type == "string" else 4

    def _least_struct(self, struct: Struct) -> int:
        total = 1 if self.flexible else 0
        for field in struct.fields:
            if not field.versions.has(self.version) or field.tag is not None:
                continue
            if field.array:
                total += 1 if self.flexible else 4
            elif field.struct is not None and field.may_be_null(self.version):
                total += 1
            else:
                total += self.least(field)
        return total
