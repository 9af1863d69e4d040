"""SASL exchanges, the client's side, without I/O.

An exchange is a generator: it yields what to send and takes what the broker answered; it returns once the
broker has proved what it must, and raises AuthenticationFailed if that goes wrong.
"""

import base64
import json
import math
import re
from collections.abc import Generator, Mapping
from typing import Any, cast

from everlog.client.core.errors import AuthenticationFailed
from everlog.client.core.security.scram import scram
from everlog.client.core.security.security import SecuritySettings
from everlog.model.errors import ConfigError, ErrorCode

Exchange = Generator[bytes, bytes, None]

_DIGESTS: Mapping[str, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")
_TOKEN = re.compile(r"[-A-Za-z0-9._~+/]+=*")


def exchange_of(settings: SecuritySettings, nonce: str, token: str | None) -> Exchange:
    """The exchange that the settings ask for; `token` is for OAUTHBEARER, a fresh `nonce` for SCRAM."""
    if settings.sasl_mechanism == "OAUTHBEARER":
        assert token is not None
        return oauthbearer(token, settings.sasl_oauth_extensions or {})
    assert settings.sasl_username is not None
    assert settings.sasl_password is not None
    if settings.sasl_mechanism == "PLAIN":
        return plain(settings.sasl_username, settings.sasl_password)
    assert settings.sasl_mechanism is not None
    digest = _DIGESTS[settings.sasl_mechanism]
    return scram(digest, settings.sasl_username, settings.sasl_password, nonce)


def plain(username: str, password: str) -> Exchange:
    """Name and password in the clear (RFC 4616); no identity to act for, as Kafka takes none but our own."""
    if "\0" in username + password:
        raise ConfigError(
            "setting sasl_username or sasl_password has a null character, which PLAIN cannot send"
        )
    yield f"\0{username}\0{password}".encode()


def oauthbearer(token: str, extensions: Mapping[str, str]) -> Exchange:
    """A bearer token (RFC 7628, KIP-255, KIP-342)."""
    if not _TOKEN.fullmatch(token):
        raise AuthenticationFailed(
            "OAUTHBEARER: what sasl_oauth_token_provider returned is not a bearer token"
        )
    pairs = {"auth": f"Bearer {token}"}
    for name, value in extensions.items():
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
            raise ConfigError(f"setting sasl_oauth_extensions: {name!r} cannot be sent as name and value")
        pairs[name] = value
    said = "".join(f"{name}={value}\x01" for name, value in pairs.items())
    answer = yield f"n,,\x01{said}\x01".encode()
    if answer:
        # The broker says why and waits for one more message before it refuses (RFC 7628, 3.2.3).
        yield b"\x01"
        raise AuthenticationFailed(f"OAUTHBEARER: the broker refused the token: {_refusal(answer)}")


def carry_on(exchange: Exchange, answer: bytes) -> bytes | None:
    """Give an exchange what the broker answered; return what to send next, None if it is done."""
    try:
        return exchange.send(answer)
    except StopIteration:
        return None


def authentication_problem(code: ErrorCode, message: str | None, mechanism: str, address: str) -> str:
    """What a broker's refusal means, with the broker's own words."""
    said = f": {message}" if message else ""
    hint = ""
    if code is ErrorCode.ILLEGAL_SASL_STATE:
        hint = " (is it a listener without SASL?)"
    return f"broker {address} refused to authenticate us by {mechanism}: {code.name}{said}{hint}"


def unsecured_token(
    principal: str, now: float, lifetime_s: float = 3600, scopes: tuple[str, ...] = ()
) -> str:
    """A token without a signature, for brokers under test that take such (`now` in seconds since 1970)."""
    # Brokers read milliseconds, and a token that is issued a part of one ahead of them is refused.
    issued = math.floor(now)
    claims: dict[str, Any] = {"sub": principal, "iat": issued, "exp": issued + lifetime_s}
    if scopes:
        claims["scope"] = list(scopes)
    return f"{_segment({'alg': 'none'})}.{_segment(claims)}."


def _segment(content: dict[str, Any]) -> str:
    raw = json.dumps(content, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _refusal(answer: bytes) -> str:
    try:
        content: Any = json.loads(answer)
    except ValueError:
        return repr(answer[:200])
    if not isinstance(content, dict):
        return repr(answer[:200])
    return ", ".join(f"{key} {value}" for key, value in cast("dict[str, Any]", content).items())
