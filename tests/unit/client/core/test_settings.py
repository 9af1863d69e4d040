"""Settings of connections and security: what is wrong, unknown or contradictory is refused by name."""

import ssl
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from everlog.client.core.settings import ConnectionOptions, ConnectionSettings, read_settings
from everlog.client.drive.link import ClusterLink
from everlog.client.drive.tls import tls_problem
from everlog.model.errors import ConfigError
from tests.client.certificates import Authority

SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
NAMED = {"sasl_username": "alice", "sasl_password": "secret"}


def refusal(options: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        read_settings(ConnectionSettings, options)
    assert not caught.value.retriable
    return str(caught.value)


def test_the_typed_options_are_the_settings() -> None:
    settings = {name for name in ConnectionSettings.__dataclass_fields__ if name != "bootstrap_servers"}

    assert set(get_type_hints(ConnectionOptions)) == settings


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"security_protocol": "TLS"}, "setting security_protocol='TLS': expected one of 'PLAINTEXT'"),
        ({"sasl_mechanism": "GSSAPI"}, "setting sasl_mechanism='GSSAPI': expected one of 'PLAIN'"),
        ({"ssl_cafile": 7}, "setting ssl_cafile=7: expected a path"),
        ({"ssl_check_hostname": "no"}, "setting ssl_check_hostname='no': expected True or False"),
        ({"ssl_context": "x"}, "setting ssl_context='x': expected an instance of ssl.SSLContext"),
        ({"sasl_oauth_token_provider": "tok"}, "sasl_oauth_token_provider: expected something to call"),
        ({"sasl_plain_username": "a"}, "sasl_plain_username='a': did you mean sasl_username?"),
        ({"ssl_truststore_location": "a.jks"}, "did you mean ssl_cafile, a PEM file?"),
        ({"securty_protocol": "SSL"}, "did you mean security_protocol?"),
        ({"reconnect_backoff_ms": -1}, "setting reconnect_backoff_ms=-1: expected a whole number"),
    ],
)
def test_what_is_wrong_or_unknown_is_refused_by_name(options: dict[str, Any], said: str) -> None:
    assert said in refusal(options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile goes with TLS, but security_protocol='PLAINTEXT'"),
        ({"ssl_check_hostname": False}, "ssl_check_hostname goes with TLS"),
        (NAMED, "sasl_username goes with SASL, but security_protocol='PLAINTEXT'"),
        ({"security_protocol": "SSL", **NAMED}, "sasl_username goes with SASL"),
        ({**SASL, **NAMED, "ssl_cafile": "ca.pem"}, "ssl_cafile goes with TLS"),
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism is needed, as security_protocol='SASL_SSL'"),
        (SASL, "sasl_username is needed, as sasl_mechanism='PLAIN'"),
        ({**SASL, "sasl_username": "alice"}, "sasl_password is needed"),
        ({**SASL, "sasl_mechanism": "OAUTHBEARER"}, "sasl_oauth_token_provider is needed"),
        (
            {**SASL, **NAMED, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": str},
            "sasl_username has no place with sasl_mechanism='OAUTHBEARER'",
        ),
        ({**SASL, **NAMED, "sasl_oauth_token_provider": str}, "sasl_oauth_token_provider has no place"),
        ({"security_protocol": "SSL", "ssl_keyfile": "k"}, "ssl_keyfile goes with ssl_certfile"),
        ({"security_protocol": "SSL", "ssl_key_password": "k"}, "ssl_key_password goes with ssl_certfile"),
        (
            {
                "security_protocol": "SSL",
                "ssl_check_hostname": True,
                "ssl_endpoint_identification_algorithm": "",
            },
            "contradict each other",
        ),
        (
            {
                "security_protocol": "SSL",
                "ssl_context": ssl.create_default_context(),
                "ssl_cafile": "ca.pem",
            },
            "ssl_cafile has no effect beside ssl_context",
        ),
    ],
)
def test_what_contradicts_is_refused_by_name(options: dict[str, Any], said: str) -> None:
    assert said in refusal(options)


@pytest.mark.parametrize(
    "name", ["sasl_password", "ssl_key_password", "sasl_pasword", "oauth_token", "secret"]
)
def test_no_message_shows_a_secret(name: str) -> None:
    assert "hunter2" not in refusal({name: ["hunter2"]})


def test_settings_do_not_show_secrets_when_printed() -> None:
    settings = read_settings(
        ConnectionSettings, {**SASL, "sasl_username": "alice", "sasl_password": "hunter2"}
    )

    assert "alice" in repr(settings)
    assert "hunter2" not in repr(settings)


def test_settings_that_go_together_are_taken() -> None:
    settings = read_settings(
        ConnectionSettings, {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": ""}
    )

    assert settings.uses_tls
    assert not settings.uses_sasl
    assert not settings.checks_hostname


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ssl_cafile": "missing.pem"}, "ssl_cafile='missing.pem': expected a file that can be read"),
        ({"ssl_cafile": "{junk}"}, "expected certificates in PEM"),
        ({"ssl_certfile": "missing.pem"}, "ssl_certfile='missing.pem': expected a file that can be read"),
        ({"ssl_certfile": "{cert}", "ssl_keyfile": "missing.key"}, "ssl_keyfile='missing.key'"),
        ({"ssl_certfile": "{junk}"}, "expected a certificate and its key in PEM"),
        ({"ssl_certfile": "{cert}", "ssl_keyfile": "{other}"}, "expected the key of ssl_certfile"),
        ({"ssl_certfile": "{locked}"}, "with its ssl_key_password"),
        ({"ssl_certfile": "{locked}", "ssl_key_password": "wrong"}, "with its ssl_key_password"),
        ({"ssl_ciphers": "NO-SUCH-CIPHER"}, "setting ssl_ciphers='NO-SUCH-CIPHER'"),
    ],
)
def test_files_are_read_when_a_client_is_made_and_refused_by_the_settings_name(
    options: dict[str, str], said: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "authority")
    (tmp_path / "junk").write_text("no certificate")
    places = {
        "junk": str(tmp_path / "junk"),
        "cert": str(authority.issue("one").certificate),
        "other": str(authority.issue("two").key),
        "locked": str(authority.issue("three", password="right").both),
    }
    given = {name: value.format(**places) for name, value in options.items()}

    with pytest.raises(ConfigError) as caught:
        ClusterLink(read_settings(ConnectionSettings, {"security_protocol": "SSL", **given}))

    assert said in str(caught.value)
    assert "wrong" not in str(caught.value)


def test_a_tls_error_that_is_not_known_is_passed_on_in_plain_words() -> None:
    error = ssl.SSLError(1, "[SSL: SOME_REASON] some reason (_ssl.c:1)")

    assert "no TLS connection" in tls_problem("kafka:9093", error)
