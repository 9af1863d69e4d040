"""Addresses of brokers as people write them: `host:port`, several with commas between."""

from everlog.model.errors import ConfigError

DEFAULT_PORT = 9092


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Read `host[:port][,…]`, IPv6 hosts in brackets; ConfigError names what cannot be read."""
    addresses = [_parse_address(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigError(f"bootstrap address {text!r} is empty: expected HOST:PORT[,HOST:PORT…]")
    return addresses


def _parse_address(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        well_formed = bool(bracket) and (not rest or rest.startswith(":"))
        port_text = rest[1:]
    else:
        host, _, port_text = text.partition(":")
        well_formed = ":" not in port_text
    port = DEFAULT_PORT
    if well_formed and port_text:
        well_formed = port_text.isdecimal() and 0 < int(port_text) < 65536
        port = int(port_text) if well_formed else port
    if not well_formed or not host:
        raise ConfigError(f"bootstrap address {text!r} cannot be read: expected HOST:PORT, port 1 to 65535")
    return host, port
