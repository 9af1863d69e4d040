"""`dataclass` as in the standard library, but a frozen one with slots is compiled when it is first made.

The standard library writes and compiles six functions for each frozen dataclass while its module is imported:
half a millisecond a class, of which a broker loads more than a hundred before it serves, and uses half. Here
a class costs a twentieth of that until the first instance. Whatever is not plain is left to the standard
library, and so is what it alone knows: `fields`, `replace` and `asdict` work as ever.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from inspect import get_annotations
    from typing import ClassVar

    _LEFT_ALONE = {"__init__", "__post_init__", "__init_subclass__", "__repr__", "__eq__", "__hash__"}
    _LEFT_ALONE |= {
        "__setattr__",
        "__delattr__",
        "__getstate__",
        "__setstate__",
        "__slots__",
        "__match_args__",
    }

    def dataclass(cls=None, /, **options):
        """Make a class a dataclass; the options are the standard library's."""

        def make(cls):
            if options == {"frozen": True, "slots": True} and _is_plain(cls):
                return _make(cls)
            return dataclasses.dataclass(**options)(cls)

        return make if cls is None else make(cls)

    def _is_plain(cls):
        """Whether all that it has are fields with or without a default, and methods of its own."""
        body = cls.__dict__
        if type(cls) is not type or cls.__bases__ != (object,) or not _LEFT_ALONE.isdisjoint(body):
            return False
        has_default = False
        for name, annotation in get_annotations(cls).items():
            if isinstance(annotation, str):
                if "ClassVar" in annotation or "InitVar" in annotation or "KW_ONLY" in annotation:
                    return False
            elif (
                annotation is dataclasses.KW_ONLY
                or annotation is ClassVar
                or isinstance(annotation, dataclasses.InitVar)
                or getattr(annotation, "__origin__", None) is ClassVar
            ):
                return False
            if name in body:
                has_default = True
                default = body[name]
                if isinstance(default, dataclasses.Field) or default.__class__.__hash__ is None:
                    return False
            elif has_default or name == "self":
                return False
        return True

    def _make(cls):
        """The class anew, with slots and with methods that are compiled when they are first called."""
        annotations = get_annotations(cls)
        names = tuple(annotations)
        defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        body = {name: value for name, value in cls.__dict__.items() if name not in defaults}
        body.pop("__dict__", None)
        body.pop("__weakref__", None)
        body |= _SAME_FOR_ALL
        body["__slots__"] = body["__match_args__"] = names
        body["__dataclass_fields__"] = _Twin("__dataclass_fields__", annotations, defaults)
        body["__dataclass_params__"] = _Twin("__dataclass_params__", annotations, defaults)

        def __init__(self, *args, **kwargs):
            parameters = (
                "self",
                *(f"{name}=__default_{name}__" if name in defaults else name for name in names),
            )
            world = {f"__default_{name}__": value for name, value in defaults.items()}
            world |= {f"__set_{name}__": made.__dict__[name].__set__ for name in names}
            lines = [f"__set_{name}__(self, {name})" for name in names] or ["pass"]
            made.__init__ = init = _compile(made, "__init__", ", ".join(parameters), lines, world)
            init(self, *args, **kwargs)

        def __eq__(self, other):
            mine, others = _tuple("self", names), _tuple("other", names)
            lines = [f"return {mine} == {others} if other.__class__ is self.__class__ else NotImplemented"]
            made.__eq__ = eq = _compile(made, "__eq__", "self, other", lines, {})
            return eq(self, other)

        def __hash__(self):
            lines = [f"return hash({_tuple('self', names)})"]
            made.__hash__ = hashed = _compile(made, "__hash__", "self", lines, {})
            return hashed(self)

        body |= {"__init__": __init__, "__eq__": __eq__, "__hash__": __hash__}
        made = type(cls.__name__, (), body)
        made.__qualname__ = cls.__qualname__
        return made

    def _tuple(of, names):
        return f"({''.join(f'{of}.{name}, ' for name in names)})"

    def _compile(made, name, parameters, lines, world):
        exec(f"def {name}({parameters}):\n    " + "\n    ".join(lines), world)
        function = world[name]
        function.__module__, function.__qualname__ = made.__module__, f"{made.__qualname__}.{name}"
        return function

    def _repr(self):
        values = (f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{self.__class__.__qualname__}({', '.join(values)})"

    def _refuse_assignment(self, name, _value):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_deletion(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _getstate(self):
        return [getattr(self, name) for name in self.__match_args__]

    def _setstate(self, state):
        for name, value in zip(self.__match_args__, state, strict=True):
            object.__setattr__(self, name, value)

    _SAME_FOR_ALL = {
        "__repr__": _repr,
        "__setattr__": _refuse_assignment,
        "__delattr__": _refuse_deletion,
        "__getstate__": _getstate,
        "__setstate__": _setstate,
    }

    class _Twin:
        """What the standard library says of a class with these fields, found out when somebody asks."""

        def __init__(self, attribute, annotations, defaults):
            self._attribute = attribute
            self._body = {"__annotations__": annotations, **defaults}

        def __get__(self, _instance, owner):
            twin = dataclasses.dataclass(frozen=True)(type(owner.__name__, (), dict(self._body)))
            found = getattr(twin, self._attribute)
            setattr(owner, self._attribute, found)
            return found
