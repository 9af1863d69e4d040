"""SCRAM, the client's side, without I/O (RFC 5802, RFC 7677)."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Generator

from everlog.client.core.errors import AuthenticationFailed

MIN_ITERATIONS = 4_096
"""Fewer would make a stolen exchange cheap to guess from; Kafka's own client asks for as many."""

MAX_ITERATIONS = 1_000_000
"""More would only keep us busy: about half a second."""

_NO_CHANNEL_BINDING = "n,,"


def scram(digest: str, username: str, password: str, nonce: str) -> Generator[bytes, bytes, None]:
    """Yield what to send, take what the broker answers; AuthenticationFailed if it cannot prove itself.

    `digest` is a name of hashlib. Names and passwords go as they are: Kafka does not prepare them
    (SASLprep) either, so a prepared one would not match.
    """
    first_bare = f"n={_escaped(username)},r={nonce}"
    server_first = _text((yield (_NO_CHANNEL_BINDING + first_bare).encode()))
    found = _attributes(server_first)
    server_nonce, salt, iterations = _server_first(found, nonce)
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    binding = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
    final_bare = f"c={binding},r={server_nonce}"
    signed = f"{first_bare},{server_first},{final_bare}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    final = yield f"{final_bare},p={base64.b64encode(proof).decode()}".encode()
    _check_server_final(_attributes(_text(final)), salted, signed, digest)


def _server_first(found: dict[str, str], nonce: str) -> tuple[str, bytes, int]:
    if "e" in found:
        raise _failed(f"the broker refused: {found['e']}")
    if "m" in found:
        raise _failed("the broker asks for an extension that we do not know")
    server_nonce = found.get("r", "")
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise _failed("the broker's nonce does not begin with ours")
    iterations = found.get("i", "")
    if not iterations.isdecimal() or not MIN_ITERATIONS <= int(iterations[:10]) <= MAX_ITERATIONS:
        raise _failed(
            f"the broker asks for {iterations[:10]!r} iterations, "
            f"expected {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    salt = _base64(found.get("s", ""), "salt")
    if not salt:
        raise _failed("the broker sent no salt")
    return server_nonce, salt, int(iterations)


def _check_server_final(found: dict[str, str], salted: bytes, signed: bytes, digest: str) -> None:
    if "e" in found:
        raise _failed(f"the broker refused: {found['e']}")
    server_key = hmac.digest(salted, b"Server Key", digest)
    expected = hmac.digest(server_key, signed, digest)
    if not hmac.compare_digest(expected, _base64(found.get("v", ""), "signature")):
        raise _failed("the broker does not know our password: its signature is wrong")


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _attributes(message: str) -> dict[str, str]:
    """`a=…,b=…` by letter; values may contain `=`, never a comma."""
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise _failed("the broker's message is not UTF-8") from None


def _base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _failed(f"the broker's {what} is not base64") from None


def _failed(why: str) -> AuthenticationFailed:
    return AuthenticationFailed(f"SCRAM: {why}")
