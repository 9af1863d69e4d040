"""Source: a straight-line Python function in the making, which knows the field that each line is about."""

import struct
from types import CodeType, FunctionType, TracebackType
from typing import Final

LETTERS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
"""Fixed-size primitives as `struct` spells them."""

SIZES: Final = {name: struct.calcsize(">" + letter) for name, letter in LETTERS.items()}


class Source:
    """Lines of one function; `field` names what the next lines are about."""

    def __init__(self, signature: str, namespace: dict[str, object]) -> None:
        self.namespace = namespace
        self.field = ""
        self._lines = [f"def {signature}:"]
        self._fields = ["", ""]
        self._depth = 1
        self._names = 0

    def line(self, text: str, field: str | None = None) -> None:
        """Add a line at the present depth."""
        self._lines.append(" " * self._depth + text)
        self._fields.append(self.field if field is None else field)

    def indent(self, by: int = 1) -> None:
        """Go deeper, or with -1 back."""
        self._depth += by

    def name(self, stem: str) -> str:
        """Return a name that no other part of the function uses."""
        self._names += 1
        return f"{stem}{self._names}"

    def bind(self, stem: str, value: object) -> str:
        """Make a value known to the function and return its name there; one value has one name."""
        for name, known in self.namespace.items():
            if known is value:
                return name
        name = self.name(stem)
        self.namespace[name] = value
        return name

    def packer(self, form: str, method: str) -> str:
        """Return the name of a method of a `struct.Struct` for this form."""
        name = (
            method[0]
            + "_"
            + "".join(letter if letter.isalnum() else "Q" + str(ord(letter)) for letter in form)
        )
        if name not in self.namespace:
            self.namespace[name] = getattr(struct.Struct(">" + form), method)
        return name

    def function(self, title: str) -> tuple[FunctionType, tuple[str, ...]]:
        """Compile; return the function and the field of each line."""
        code = compile("\n".join(self._lines) + "\n", f"<{title}>", "exec")
        exec(code, self.namespace)
        name = self._lines[0].removeprefix("def ").partition("(")[0]
        function = self.namespace.pop(name)
        assert isinstance(function, FunctionType)
        return function, tuple(self._fields)

    def text(self) -> str:
        """Return the source, for people who look into what was made."""
        return "\n".join(self._lines) + "\n"


def field_at_fault(code: CodeType, fields: tuple[str, ...], trace: TracebackType | None) -> str:
    """Return the field that the function of this code was at when the exception passed through it."""
    while trace is not None:
        if trace.tb_frame.f_code is code:
            return fields[trace.tb_lineno]
        trace = trace.tb_next
    return ""
