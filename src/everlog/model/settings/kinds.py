"""What one setting is: its name, the values that it can have, and how they are read from text."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Generic, TypeVar

from everlog.model.errors import ConfigError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Kind(IntEnum):
    """The type of a setting, with the number that DescribeConfigs gives it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """How a broker's setting may change while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True)
class Setting(Generic[T_co]):
    """One setting. `settings[SETTING]` has the type that `default` has."""

    key: str
    kind: Kind
    default: T_co
    meaning: str
    read: Callable[[str], T_co]
    """Text to a value, without the bounds; a ValueError's text says what was expected."""
    expected: str
    """What a value may be, for people."""
    update: Update = Update.READ_ONLY
    needs: str | None = None
    """The capability that any value but the default would need and that is not there yet."""
    ours: bool = False
    """Whether Kafka has no setting of this name, or ours means or defaults to something else."""

    @property
    def sensitive(self) -> bool:
        """Whether the value may never be shown."""
        return self.kind is Kind.PASSWORD

    def parse(self, text: str) -> T_co:
        """Return the value that `text` stands for; ConfigError if there is none, or none that we serve."""
        try:
            value = self.read(text.strip())
        except ValueError:
            shown = "[hidden]" if self.sensitive else repr(text)
            raise ConfigError(f"{self.key} is {shown}, expected {self.expected}") from None
        if self.needs is not None and value != self.default:
            raise ConfigError(
                f"{self.key} is {text!r}, expected {self.text(self.default)!r}: "
                f"other values need {self.needs}, which this version does not have"
            )
        return value

    def text(self, value: object) -> str | None:
        """Return a value of this setting as text, the way Kafka writes it; None is not set."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return str(value)


def flag(key: str, default: bool, meaning: str) -> Setting[bool]:
    """A setting that is true or false."""
    return Setting(key, Kind.BOOLEAN, default, meaning, _read_flag, "true or false")


def whole(
    key: str,
    default: int,
    meaning: str,
    least: int = -(2**63),
    most: int = LONG_MAX,
    *,
    kind: Kind = Kind.LONG,
    also: int | None = None,
) -> Setting[int]:
    """A whole number from `least` to `most`, or the one value `also`; `kind` bounds it as well."""
    least, most = _bounds(kind, least, most)

    def read(text: str) -> int:
        value = int(text)
        if not least <= value <= most and value != also:
            raise ValueError(value)
        return value

    return Setting(key, kind, default, meaning, read, _range_text("a whole number", least, most, also, kind))


def whole_or_unset(
    key: str, meaning: str, least: int = -(2**63), most: int = LONG_MAX, *, kind: Kind = Kind.LONG
) -> Setting[int | None]:
    """A whole number that is None until somebody sets it."""
    return _optional(whole(key, 0, meaning, least, most, kind=kind))


def fraction(key: str, default: float, meaning: str, least: float, most: float) -> Setting[float]:
    """A number from `least` to `most`."""

    def read(text: str) -> float:
        value = float(text)
        # Written so that NaN, which compares false with all, is refused.
        if not least <= value <= most:
            raise ValueError(value)
        return value

    return Setting(key, Kind.DOUBLE, default, meaning, read, f"a number from {least:g} to {most:g}")


def word(key: str, default: str, meaning: str, choices: tuple[str, ...] = ()) -> Setting[str]:
    """A text, one of `choices` where some are given; otherwise it may not be empty."""

    def read(text: str) -> str:
        if text not in choices if choices else not text:
            raise ValueError(text)
        return text

    expected = f"one of {', '.join(choices)}" if choices else "a text that is not empty"
    return Setting(key, Kind.STRING, default, meaning, read, expected)


def word_or_unset(key: str, meaning: str, kind: Kind = Kind.STRING) -> Setting[str | None]:
    """A text that is None until somebody sets it."""
    return replace(_optional(word(key, "", meaning)), kind=kind)


def words(
    key: str,
    default: tuple[str, ...],
    meaning: str,
    choices: tuple[str, ...] = (),
    *,
    empty: bool = True,
) -> Setting[tuple[str, ...]]:
    """A list without repetitions, each of `choices` where some are given; commas divide it."""

    def read(text: str) -> tuple[str, ...]:
        values = split_list(text)
        if len(set(values)) != len(values) or not (values or empty):
            raise ValueError(text)
        if "" in values or (choices and not set(values) <= set(choices)):
            raise ValueError(text)
        return values

    of = f" of {', '.join(choices)}" if choices else ""
    some = "" if empty else ", at least one"
    return Setting(
        key, Kind.LIST, default, meaning, read, f"a comma-separated list{of} without repetitions{some}"
    )


def counts_of_addresses(key: str, meaning: str) -> Setting[str]:
    """A list of `address:count`, which `counts_by_address` reads."""

    def read(text: str) -> str:
        counts_by_address(text)
        return text

    expected = "a comma-separated list of address:count, each address once, counts from 0"
    return Setting(key, Kind.STRING, "", meaning, read, expected)


def counts_by_address(text: str) -> dict[str, int]:
    """Read `address:count,…`, addresses as sockets give them; ValueError for the rest, names of hosts too."""
    if not text.strip():
        return {}
    # Hardly anybody sets it, and the module takes longer to load than all settings to read.
    from ipaddress import ip_address

    found: dict[str, int] = {}
    for part in split_list(text):
        # The last colon: those before it are of an IPv6 address.
        address, _, count = part.rpartition(":")
        host = str(ip_address(address.strip()))
        if host in found or not 0 <= int(count) <= INT_MAX:
            raise ValueError(part)
        found[host] = int(count)
    return found


def split_list(text: str) -> tuple[str, ...]:
    """The parts of a list's text, without the blanks around them; the empty text is the empty list."""
    return tuple(part.strip() for part in text.split(",")) if text.strip() else ()


def changing(setting: Setting[T], update: Update) -> Setting[T]:
    """The same setting, changeable in that way while a broker runs."""
    return replace(setting, update=update)


def needing(setting: Setting[T], capability: str) -> Setting[T]:
    """The same setting, of which only the default is accepted until there is `capability`."""
    return replace(setting, needs=capability)


def our_own(setting: Setting[T]) -> Setting[T]:
    """The same setting, marked as one that Kafka does not have, or has otherwise."""
    return replace(setting, ours=True)


def _optional(setting: Setting[T]) -> Setting[T | None]:
    return Setting(setting.key, setting.kind, None, setting.meaning, setting.read, setting.expected)


def _read_flag(text: str) -> bool:
    lowered = text.lower()
    if lowered not in {"true", "false"}:
        raise ValueError(text)
    return lowered == "true"


def _bounds(kind: Kind, least: int, most: int) -> tuple[int, int]:
    bits = {Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}[kind]
    return max(least, -(2**bits)), min(most, 2**bits - 1)


def _range_text(what: str, least: int, most: int, also: int | None, kind: Kind) -> str:
    full_least, full_most = _bounds(kind, -(2**63), LONG_MAX)
    extra = "" if also is None else f", or {also}"
    if least == full_least and most == full_most:
        return f"{what} of {kind.name.lower()} size"
    if most == full_most:
        return f"{what}, at least {least}{extra}"
    return f"{what} from {least} to {most}{extra}"
