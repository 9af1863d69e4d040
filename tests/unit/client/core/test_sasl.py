"""SASL exchanges: the vectors of the RFCs, and brokers that cannot prove themselves."""

import base64
import json

import pytest

from everlog.client.core.errors import AuthenticationFailed
from everlog.client.core.security.sasl import (
    authentication_problem,
    carry_on,
    exchange_of,
    oauthbearer,
    plain,
    unsecured_token,
)
from everlog.client.core.security.scram import scram
from everlog.client.core.settings import ConnectionSettings, read_settings
from everlog.model.errors import ConfigError, ErrorCode

# RFC 5802, section 5.
SHA1 = (
    "sha1",
    "fyko+d2lbbFgONRv9qkxdawL",
    b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)

# RFC 7677, section 3.
SHA256 = (
    "sha256",
    "rOprNGfwEbeRWgbNEkqO",
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


@pytest.mark.parametrize(
    ("digest", "nonce", "first", "server_first", "final", "server_final"),
    [SHA1, SHA256],
    ids=["5802", "7677"],
)
def test_scram_as_in_the_rfcs(
    digest: str, nonce: str, first: bytes, server_first: bytes, final: bytes, server_final: bytes
) -> None:
    exchange = scram(digest, "user", "pencil", nonce)

    assert next(exchange) == first
    assert carry_on(exchange, server_first) == final
    assert carry_on(exchange, server_final) is None


def test_scram_escapes_what_separates_attributes() -> None:
    assert next(scram("sha256", "a=b,c", "secret", "nonce")) == b"n,,n=a=3Db=2Cc,r=nonce"


@pytest.mark.parametrize(
    ("server_first", "said"),
    [
        (b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not begin with ours"),
        (b"r=nonce,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not begin with ours"),
        (b"r=nonceX,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095", "iterations"),
        (b"r=nonceX,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1000001", "iterations"),
        (b"r=nonceX,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=" + b"9" * 5000, "iterations"),
        (b"r=nonceX,s=W22ZaJ0SNY7soEsUEjb6gQ==", "iterations"),
        (b"r=nonceX,s=!,i=4096", "not base64"),
        (b"r=nonceX,s=,i=4096", "no salt"),
        (b"m=ext,r=nonceX,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "extension"),
        (b"e=other-error", "other-error"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "nonce"),
    ],
)
def test_scram_ends_with_a_broker_that_begins_badly(server_first: bytes, said: str) -> None:
    exchange = scram("sha256", "user", "pencil", "nonce")
    next(exchange)

    with pytest.raises(AuthenticationFailed, match=said):
        carry_on(exchange, server_first)


@pytest.mark.parametrize(
    ("server_final", "said"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "does not know our password"),
        (b"v=", "does not know our password"),
        (b"", "does not know our password"),
        (b"e=invalid-proof", "invalid-proof"),
    ],
)
def test_scram_ends_with_a_broker_that_does_not_know_the_password(server_final: bytes, said: str) -> None:
    """It could be anyone who took our proof and passed us on."""
    exchange = scram("sha256", "user", "pencil", SHA256[1])
    next(exchange)
    carry_on(exchange, SHA256[3])

    with pytest.raises(AuthenticationFailed, match=said):
        carry_on(exchange, server_final)


def test_plain_sends_no_identity_to_act_for() -> None:
    exchange = plain("alice", "sécret")

    assert next(exchange) == "\0alice\0sécret".encode()
    assert carry_on(exchange, b"") is None


def test_plain_refuses_what_would_end_a_field_early() -> None:
    with pytest.raises(ConfigError, match="null character"):
        next(plain("alice", "se\0cret"))


def test_a_bearer_token_and_what_goes_with_it() -> None:
    exchange = oauthbearer("abc.def.", {"logicalCluster": "lkc-1"})

    assert next(exchange) == b"n,,\x01auth=Bearer abc.def.\x01logicalCluster=lkc-1\x01\x01"
    assert carry_on(exchange, b"") is None


def test_a_broker_that_refuses_a_token_is_answered_once_more_so_that_it_can_say_so() -> None:
    exchange = oauthbearer("abc", {})
    next(exchange)

    assert carry_on(exchange, b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailed, match="status invalid_token"):
        carry_on(exchange, b"")


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a b": "x"}, {"a": "x\x01y"}, {"a": ""}], ids=str)
def test_extensions_that_cannot_be_sent_are_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="sasl_oauth_extensions"):
        next(oauthbearer("abc", extensions))


@pytest.mark.parametrize("token", ["", "two words", "a\x01b", "é"])
def test_what_is_no_bearer_token_is_not_sent(token: str) -> None:
    with pytest.raises(AuthenticationFailed, match="not a bearer token") as caught:
        next(oauthbearer(token, {}))
    assert not token or token not in str(caught.value)


def test_an_unsecured_token_has_the_claims_that_kafka_reads() -> None:
    header, claims, signature = unsecured_token("alice", 1000.9996, 60, ("read",)).split(".")

    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims + "==")) == {
        "sub": "alice",
        "iat": 1000,  # Not a part of a millisecond ahead of the broker's clock.
        "exp": 1060,
        "scope": ["read"],
    }
    assert signature == ""


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_password": "b"}, b"\0a\0b"),
        ({"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "a", "sasl_password": "b"}, b"n,,n=a,r=N"),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": str},
            b"n,,\x01auth=Bearer T\x01\x01",
        ),
    ],
)
def test_the_settings_choose_the_exchange(options: dict[str, object], start: bytes) -> None:
    settings = read_settings(ConnectionSettings, {"security_protocol": "SASL_PLAINTEXT", **options})

    assert next(exchange_of(settings, "N", "T")) == start


def test_a_refusal_has_the_brokers_words() -> None:
    said = authentication_problem(
        ErrorCode.SASL_AUTHENTICATION_FAILED, "Invalid username or password", "PLAIN", "kafka:9093"
    )

    assert said == (
        "broker kafka:9093 refused to authenticate us by PLAIN: "
        "SASL_AUTHENTICATION_FAILED: Invalid username or password"
    )
