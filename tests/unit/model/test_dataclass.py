"""Our `dataclass` against the standard library's: nobody can tell them apart but by the time they take."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, InitVar, asdict, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

import pytest

from everlog.model import dataclass as ours
from everlog.model.dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Point:
    """A place."""

    x: int
    y: int = 0
    names: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.x + self.y


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPoint:
    x: int
    y: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Other:
    x: int
    y: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ticked:
    """Nothing in it."""


@dataclass(frozen=True, slots=True)
class Named:
    set_x: int
    x: int
    made: int = 1


POINTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 2), {}),
    ((1,), {"names": ("a",)}),
    ((), {"x": 3, "y": 4}),
]


@pytest.mark.parametrize(("args", "named"), POINTS)
def test_values_are_those_of_the_standard_library(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    mine, standard = Point(*args, **named), StandardPoint(*args, **named)

    assert asdict(mine) == asdict(standard)
    assert repr(mine) == repr(standard).replace("StandardPoint", "Point")
    assert hash(mine) == hash(standard)
    assert mine == Point(*args, **named)
    assert mine.total == mine.x + mine.y


@pytest.mark.parametrize("args", [(), (1, 2, 3, 4)])
def test_wrong_arguments_are_refused_as_ever(args: tuple[int, ...]) -> None:
    make = cast(Callable[..., object], Point)
    with pytest.raises(TypeError):
        make(*args)
    with pytest.raises(TypeError):
        make(1, z=2)


def test_values_of_different_classes_differ() -> None:
    others: list[object] = [Other(1), (1, 0, ()), Point(2)]

    assert all(Point(1) != other for other in others)
    assert len({Point(1), Point(1), Point(2)}) == 2


def test_nothing_of_a_value_can_be_changed() -> None:
    point = Point(1)

    for name in ("x", "z"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(point, name, 2)
        with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(point, name)
    assert not hasattr(point, "__dict__")
    assert point == Point(1)


def test_a_class_without_fields_has_equal_instances_that_count_as_true() -> None:
    assert Ticked() == Ticked()
    assert hash(Ticked()) == hash(Ticked())
    assert repr(Ticked()) == "Ticked()"
    assert Ticked()


def test_fields_may_have_any_name() -> None:
    assert repr(Named(1, 2)) == "Named(set_x=1, x=2, made=1)"


def test_it_is_matched_by_place_and_by_name() -> None:
    match Point(1, 2):
        case Point(x, 2, names=names):
            assert (x, names) == (1, ())
        case _:
            pytest.fail("not matched")


def test_the_functions_of_the_standard_library_know_it() -> None:
    assert is_dataclass(Point)
    assert [(one.name, one.default) for one in fields(Point)] == [
        (one.name, one.default) for one in fields(StandardPoint)
    ]
    assert fields(Point(1))[0] is fields(Point)[0]
    assert replace(Point(1, 2), y=3) == Point(1, 3)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_is_copied_and_pickled(protocol: int) -> None:
    point = Point(1, 2, ("a",))

    if protocol >= 2:  # As with any class that has slots.
        assert pickle.loads(pickle.dumps(point, protocol)) == point
    assert copy.copy(point) == copy.deepcopy(point) == point


def test_a_dataclass_may_extend_it() -> None:
    @dataclass(frozen=True, slots=True)
    class Longer(Point):
        z: int = 9

    assert Longer(1, 2).z == 9
    assert asdict(Longer(1)) == {"x": 1, "y": 0, "names": (), "z": 9}


def test_nothing_is_compiled_before_it_is_used() -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        """Not used yet."""

        x: int

    before = Fresh.__init__, Fresh.__eq__, Fresh.__hash__
    assert [inspect.getsourcefile(one) for one in before] == [ours.__file__] * 3
    assert Fresh(1) == Fresh(1)
    assert {Fresh(1)} == {Fresh(1)}
    after = Fresh.__init__, Fresh.__eq__, Fresh.__hash__
    assert [one.__code__.co_filename for one in after] == ["<string>"] * 3


def test_it_may_be_generic() -> None:
    @dataclass(frozen=True, slots=True)
    class Box(Generic[T]):
        held: T

    assert Box(1) == Box[int](1)
    assert Box("a").held == "a"
    assert [one.name for one in fields(Box)] == ["held"]
    assert not hasattr(Box(1), "__dict__")


def test_one_that_is_not_frozen_can_be_changed_and_has_no_hash() -> None:
    @dataclass(slots=True)
    class Changing:
        x: int
        seen: set[int] = field(default_factory=set[int])

    one, other = Changing(1), Changing(1)
    one.seen.add(7)
    one.x = 2

    assert repr(one).endswith(".Changing(x=2, seen={7})")
    assert one != other
    assert one == Changing(2, {7})
    assert replace(one, x=3) == Changing(3, {7})
    assert copy.copy(one) == one
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with pytest.raises(AttributeError):
        one.y = 3  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue] - the mistake


def test_what_is_not_plain_is_left_to_the_standard_library() -> None:
    @dataclass(frozen=True, slots=True)
    class Odd:
        kind: ClassVar[str] = "odd"
        start: InitVar[int]
        items: dict[str, int] = field(default_factory=dict[str, int])

        def __post_init__(self, start: int) -> None:
            self.items["start"] = start

    @dataclass(frozen=True, slots=True)
    class Uncompared:
        x: int
        note: str = field(default="", compare=False)

    @dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        x: int

    assert Odd(3).items == {"start": 3}
    assert Uncompared(1, "a") == Uncompared(1, "b")
    assert Ordered(1) < Ordered(2)


def test_mistakes_are_found_where_the_class_is_made() -> None:
    def mutable_default() -> None:
        @dataclass(frozen=True, slots=True)
        class _Mutable:
            x: list[int] = []  # noqa: RUF012 - the mistake

    def default_first() -> None:
        body = {"__annotations__": {"x": int, "y": int}, "x": 1}
        dataclass(frozen=True, slots=True)(type("_Wrong", (), body))

    with pytest.raises(ValueError, match="mutable default"):
        mutable_default()
    with pytest.raises(TypeError, match="non-default argument 'y'"):
        default_first()
