"""Listeners: where a node waits for connections, and what it tells others about it."""

from collections.abc import Iterable
from enum import IntEnum

from everlog.model.dataclass import dataclass
from everlog.model.errors import ConfigError


class SecurityProtocol(IntEnum):
    """How bytes and names are protected on a listener, with the number that records carry."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


SERVED_PROTOCOLS = frozenset({SecurityProtocol.PLAINTEXT})


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener: an empty host is every address, port 0 is any free one."""

    name: str
    host: str
    port: int
    protocol: SecurityProtocol

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def reachable_from_elsewhere(self) -> bool:
        """Whether other machines may get through to it; a host name counts unless it is localhost."""
        if self.host in {"localhost", "127.0.0.1", "::1"}:
            return False
        # Most starts end above, and the module takes longer to load than all settings to read.
        from ipaddress import ip_address

        try:
            return not ip_address(self.host).is_loopback
        except ValueError:
            return True


def parse_listeners(
    key: str, entries: Iterable[str], protocols: dict[str, SecurityProtocol]
) -> tuple[Listener, ...]:
    """Read `NAME://host:port` entries of the setting `key`; names and ports may not repeat."""
    listeners = tuple(_parse_listener(key, entry, protocols) for entry in entries)
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise ConfigError(f"{key} names a listener twice: {', '.join(names)}; expected each name once")
    return listeners


def parse_protocol_map(key: str, entries: Iterable[str]) -> dict[str, SecurityProtocol]:
    """Read `NAME:PROTOCOL` entries into a map of upper-case names."""
    protocols: dict[str, SecurityProtocol] = {}
    for entry in entries:
        name, _, protocol = entry.partition(":")
        if not name or protocol.upper() not in SecurityProtocol.__members__:
            raise ConfigError(
                f"{key} has {entry!r}, expected NAME:PROTOCOL with {', '.join(SecurityProtocol.__members__)}"
            )
        protocols[name.strip().upper()] = SecurityProtocol[protocol.strip().upper()]
    return protocols


def _parse_listener(key: str, entry: str, protocols: dict[str, SecurityProtocol]) -> Listener:
    name, divider, address = entry.partition("://")
    host, colon, port_text = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (name and divider and colon) or not port_text.isascii() or not port_text.isdigit():
        raise ConfigError(f"{key} has {entry!r}, expected NAME://host:port")
    port = int(port_text)
    if port > 65_535:
        raise ConfigError(f"{key} has {entry!r} with port {port}, expected 0 to 65535")
    name = name.upper()
    if name not in protocols:
        raise ConfigError(
            f"{key} has the listener {name}, which listener.security.protocol.map does not name; "
            f"expected one of {', '.join(protocols)}"
        )
    return Listener(name, host, port, protocols[name])
