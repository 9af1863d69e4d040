"""One Apache Kafka with a listener for each way to be safe, for the tests of TLS and SASL."""

import asyncio
import hashlib
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from everlog.client.core.security.sasl import unsecured_token
from everlog.client.core.settings import ConnectionSettings, read_settings
from everlog.client.drive.link import ClusterLink
from everlog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from tests import apache_kafka, brokers
from tests.client.certificates import Authority

USER, PASSWORD = "alice", "alice's, secret="
ODD_USER = "o=dd, name"
"""A name that SCRAM must escape."""

SESSION_MS = 5_000
"""How long an authentication lasts on the listener `short`."""

_ITERATIONS = 4_096
_JAAS = "org.apache.kafka.common.security"
_MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
_LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
    "PLAINONLY": "SASL_PLAINTEXT",
}


class SecuredKafka:
    """A broker whose listeners are found by name: `address("TLS")`."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory, "authority")
        self.other_authority = Authority(directory, "other-authority")
        self.client = self.authority.issue("client")
        self.locked_client = self.authority.issue("locked-client", password=PASSWORD)
        self.stranger = self.other_authority.issue("stranger")
        self._broker = self.authority.issue("broker", hosts=("localhost",))
        self._expired = self.authority.issue("expired-broker", hosts=("localhost",), is_expired=True)
        self._ports = {name: brokers.free_port() for name in _LISTENERS}
        self._directory = directory / "data"
        self._process: subprocess.Popen[bytes] | None = None

    def address(self, listener: str) -> str:
        """Bootstrap servers for a listener, by the name in the broker's certificate."""
        return f"localhost:{self._ports[listener]}"

    def start(self) -> None:
        """Start it and return once it serves and its users exist."""
        port = self._ports["PLAINTEXT"]
        self._process = apache_kafka.start_broker(port, self._directory, self._settings())
        apache_kafka.wait_ready(self._process, self._directory, timeout_s=120)
        asyncio.run(_create_users(self.address("PLAINTEXT")))

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def tls(self, listener: str, **more: Any) -> dict[str, Any]:
        """A client's settings for a listener with TLS."""
        return {
            "bootstrap_servers": self.address(listener),
            "security_protocol": "SASL_SSL" if "SASL" in listener else "SSL",
            "ssl_cafile": self.authority.file,
            **more,
        }

    def sasl(self, mechanism: str, listener: str = "SASL", **more: Any) -> dict[str, Any]:
        """A client's settings for a listener with SASL."""
        who: dict[str, Any] = (
            {"sasl_oauth_token_provider": lambda: unsecured_token(USER, time.time())}
            if mechanism == "OAUTHBEARER"
            else {"sasl_username": USER, "sasl_password": PASSWORD}
        )
        return {
            "bootstrap_servers": self.address(listener),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            **who,
            **more,
        }

    def _settings(self) -> dict[str, str]:
        listeners = ",".join(f"{name}://localhost:{self._ports[name]}" for name in _LISTENERS)
        settings = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(":".join(pair) for pair in _LISTENERS.items()),
            "controller.quorum.bootstrap.servers": f"localhost:{self._ports['CONTROLLER']}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._broker.both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.expired.ssl.keystore.type": "PEM",
            "listener.name.expired.ssl.keystore.location": str(self._expired.both),
            "sasl.enabled.mechanisms": _MECHANISMS,
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "listener.name.plainonly.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
        }
        plain = f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        token = f'{_JAAS}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        scram = f"{_JAAS}.scram.ScramLoginModule required;"
        for listener in ("sasl", "sasltls", "short", "plainonly"):
            prefix = f"listener.name.{listener}"
            settings[f"{prefix}.plain.sasl.jaas.config"] = plain
            settings[f"{prefix}.scram-sha-256.sasl.jaas.config"] = scram
            settings[f"{prefix}.scram-sha-512.sasl.jaas.config"] = scram
            settings[f"{prefix}.oauthbearer.sasl.jaas.config"] = token
        return settings


async def _create_users(bootstrap: str) -> None:
    link = ClusterLink(read_settings(ConnectionSettings, {"bootstrap_servers": bootstrap}))
    # One request may not name a user twice.
    for number, digest in ((1, "sha256"), (2, "sha512")):
        users = [_credential(name, number, digest) for name in (USER, ODD_USER)]
        answer = await link.call(
            AlterUserScramCredentialsRequest(upsertions=users), AlterUserScramCredentialsResponse
        )
        assert [result.error_code for result in answer.results] == [0, 0]
    await link.close()


def _credential(name: str, mechanism: int, digest: str) -> ScramCredentialUpsertion:
    salt = os.urandom(16)
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=_ITERATIONS,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(digest, PASSWORD.encode(), salt, _ITERATIONS),
    )
