"""`dataclass` as in the standard library, but one with slots is compiled when it is first used.

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
    from typing import ClassVar, Generic

    _WAYS = {"slots": True}, {"slots": True, "frozen": True}
    _BASES = (object,), (Generic,)
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
            if options in _WAYS and _is_plain(cls):
                return _make(cls, is_frozen="frozen" in options)
            return dataclasses.dataclass(**options)(cls)

        return make if cls is None else make(cls)

    def _is_plain(cls):
        """Whether all that it has are fields with or without a default, and methods of its own."""
        body = cls.__dict__
        if type(cls) is not type or cls.__bases__ not in _BASES or not _LEFT_ALONE.isdisjoint(body):
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
                if isinstance(default, dataclasses.Field):
                    if not _has_only_a_factory(default):
                        return False
                elif default.__class__.__hash__ is None:
                    return False
            elif has_default or name == "self":
                return False
        return True

    def _has_only_a_factory(field):
        missing = dataclasses.MISSING
        usual = (
            field.init and field.repr and field.compare and field.hash is None and field.kw_only is missing
        )
        return usual and field.default_factory is not missing

    def _make(cls, is_frozen):
        """The class anew, with slots and with methods that are compiled when they are first called."""
        annotations = get_annotations(cls)
        names = tuple(annotations)
        defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        body = {name: value for name, value in cls.__dict__.items() if name not in defaults}
        body.pop("__dict__", None)
        body.pop("__weakref__", None)
        body["__slots__"] = body["__match_args__"] = names
        body["__repr__"] = _repr
        for told in ("__dataclass_fields__", "__dataclass_params__"):
            body[told] = _Twin(told, annotations, defaults, is_frozen)

        def __init__(self, *args, **kwargs):
            made.__init__ = init = _compile_init(made, names, defaults)
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

        body["__init__"] = __init__
        body["__eq__"] = __eq__
        if is_frozen:
            body["__hash__"] = __hash__
            body |= _FROZEN
        made = type(cls.__name__, cls.__bases__, body)
        made.__qualname__ = cls.__qualname__
        return made

    def _compile_init(made, names, defaults):
        parameters, lines, world = ["self"], [], {"__unset__": dataclasses.MISSING}
        for name in names:
            value = name
            world[f"__set_{name}__"] = made.__dict__[name].__set__
            if name not in defaults:
                parameters.append(name)
            elif isinstance(defaults[name], dataclasses.Field):
                parameters.append(f"{name}=__unset__")
                world[f"__make_{name}__"] = defaults[name].default_factory
                value = f"__make_{name}__() if {name} is __unset__ else {name}"
            else:
                parameters.append(f"{name}=__default_{name}__")
                world[f"__default_{name}__"] = defaults[name]
            lines.append(f"__set_{name}__(self, {value})")
        return _compile(made, "__init__", ", ".join(parameters), lines or ["pass"], world)

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

    _FROZEN = {
        "__setattr__": _refuse_assignment,
        "__delattr__": _refuse_deletion,
        "__getstate__": _getstate,
        "__setstate__": _setstate,
    }

    class _Twin:
        """What the standard library says of a class with these fields, found out when somebody asks."""

        def __init__(self, attribute, annotations, defaults, is_frozen):
            self._attribute = attribute
            self._body = {"__annotations__": annotations, **defaults}
            self._is_frozen = is_frozen

        def __get__(self, _instance, owner):
            twin = type(owner.__name__, (), dict(self._body))
            found = getattr(dataclasses.dataclass(frozen=self._is_frozen)(twin), self._attribute)
            setattr(owner, self._attribute, found)
            return found
