"""Settings of TLS and SASL, and which of them go together."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypedDict

from everlog.client.core.setting_checks import (
    flag,
    function,
    instance_of,
    maybe,
    one_of,
    path,
    secret,
    setting,
    text,
    text_map,
)
from everlog.model.errors import ConfigError

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
TokenProvider = Callable[[], str | Awaitable[str]]
"""Returns a token for OAUTHBEARER. Called on a thread of its own for each connection and before a session
ends; it may be a coroutine function, which runs on the client's loop."""


class SecurityOptions(TypedDict, total=False):
    """Keyword arguments for TLS and SASL."""

    security_protocol: SecurityProtocol
    ssl_context: ssl.SSLContext | None
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_key_password: str | None
    ssl_check_hostname: bool
    ssl_endpoint_identification_algorithm: Literal["https", ""] | None
    ssl_ciphers: str | None
    sasl_mechanism: SaslMechanism | None
    sasl_username: str | None
    sasl_password: str | None
    sasl_oauth_token_provider: TokenProvider | None
    sasl_oauth_extensions: Mapping[str, str] | None


class TlsFiles(NamedTuple):
    """Where certificates and the key are, as PEM."""

    cafile: str | None
    certfile: str | None
    keyfile: str | None


@dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """How a client proves who it is and has brokers do so."""

    security_protocol: SecurityProtocol = setting(
        "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "whether connections are encrypted, and whether by SASL we say who we are",
    )
    ssl_context: ssl.SSLContext | None = setting(
        None, maybe(instance_of(ssl.SSLContext)), "used as it is, instead of all other ssl_ settings"
    )
    ssl_cafile: str | None = setting(
        None, maybe(path), "PEM file of the authorities that brokers' certificates are of; else the system's"
    )
    ssl_certfile: str | None = setting(
        None, maybe(path), "PEM file of our certificate and those between it and its authority"
    )
    ssl_keyfile: str | None = setting(
        None, maybe(path), "PEM file of our key; not needed if it is in ssl_certfile"
    )
    ssl_key_password: str | None = setting(None, maybe(secret), "what our key is encrypted with", shown=False)
    ssl_check_hostname: bool = setting(True, flag, "whether a broker's certificate must be for its host")
    ssl_endpoint_identification_algorithm: str | None = setting(
        None, maybe(one_of("https", "")), "Kafka's way to say ssl_check_hostname: 'https', or '' for no check"
    )
    ssl_ciphers: str | None = setting(None, maybe(text), "ciphers of TLS 1.2, by OpenSSL's names")
    sasl_mechanism: SaslMechanism | None = setting(
        None,
        maybe(one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")),
        "how we say who we are",
    )
    sasl_username: str | None = setting(None, maybe(text), "for PLAIN and SCRAM")
    sasl_password: str | None = setting(None, maybe(secret), "for PLAIN and SCRAM", shown=False)
    sasl_oauth_token_provider: TokenProvider | None = setting(
        None, maybe(function), "returns the token for OAUTHBEARER, each time one is needed"
    )
    sasl_oauth_extensions: Mapping[str, str] | None = setting(
        None, maybe(text_map), "more for the broker, along with the token (KIP-342)", shown=False
    )

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether we say by SASL who we are."""
        return self.security_protocol.startswith("SASL")

    @property
    def checks_hostname(self) -> bool:
        """Whether a broker's certificate must be for its host."""
        return self.ssl_check_hostname and self.ssl_endpoint_identification_algorithm != ""

    @property
    def tls_files(self) -> TlsFiles:
        """Where certificates and the key are."""
        return TlsFiles(self.ssl_cafile, self.ssl_certfile, self.ssl_keyfile)

    def check_together(self, given: Mapping[str, object]) -> None:
        """Refuse settings that contradict each other; `given` are those that the user wrote."""
        said = f"security_protocol={self.security_protocol!r}"
        for name, value in given.items():
            if name.startswith("ssl_") and value is not None and not self.uses_tls:
                raise ConfigError(f"setting {name} goes with TLS, but {said}: expected SSL or SASL_SSL")
            if name.startswith("sasl_") and value is not None and not self.uses_sasl:
                raise ConfigError(
                    f"setting {name} goes with SASL, but {said}: expected SASL_PLAINTEXT or SASL_SSL"
                )
        self._check_tls(given)
        if self.uses_sasl:
            self._check_sasl(said)

    def _check_tls(self, given: Mapping[str, object]) -> None:
        if self.ssl_context is not None:
            others = [
                name
                for name, value in given.items()
                if name.startswith("ssl_") and name != "ssl_context" and value is not None
            ]
            if others:
                raise ConfigError(
                    f"setting {others[0]} has no effect beside ssl_context: expected one or the other"
                )
        for name in ("ssl_keyfile", "ssl_key_password"):
            if getattr(self, name) is not None and self.ssl_certfile is None:
                raise ConfigError(f"setting {name} goes with ssl_certfile, which is not given")
        algorithm = given.get("ssl_endpoint_identification_algorithm")
        check = given.get("ssl_check_hostname")
        if algorithm is not None and check is not None and bool(algorithm) != check:
            raise ConfigError(
                f"settings ssl_check_hostname={check!r} and ssl_endpoint_identification_algorithm="
                f"{algorithm!r} contradict each other: expected one of them"
            )

    def _check_sasl(self, said: str) -> None:
        mechanism = self.sasl_mechanism
        if mechanism is None:
            raise ConfigError(f"setting sasl_mechanism is needed, as {said}")
        names = ("sasl_username", "sasl_password")
        tokens = ("sasl_oauth_token_provider",)
        needed, odd = (
            (tokens, names) if mechanism == "OAUTHBEARER" else (names, (*tokens, "sasl_oauth_extensions"))
        )
        values = vars(self)
        for name in needed:
            if values[name] is None:
                raise ConfigError(f"setting {name} is needed, as sasl_mechanism={mechanism!r}")
        for name in odd:
            if values[name] is not None:
                raise ConfigError(f"setting {name} has no place with sasl_mechanism={mechanism!r}")
