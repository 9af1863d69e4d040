"""One Apache Kafka with a listener for each way to be safe, for the tests of TLS and SASL."""

import hashlib
import os
import subprocess
from pathlib import Path

from tests import apache_kafka, brokers
from tests.client.certificates import Authority

USER, PASSWORD = "alice", "alice's, secret="
SESSION_MS = 5_000
"""How long an authentication lasts on the listener `short`."""

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
        """Start it and return once it serves."""
        port = self._ports["PLAINTEXT"]
        self._process = apache_kafka.start_broker(port, self._directory, self._settings())
        apache_kafka.wait_ready(self._process, self._directory, timeout_s=120)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

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


def salted_password(digest: str, salt: bytes, iterations: int) -> bytes:
    """What a broker keeps of the user's password for SCRAM."""
    return hashlib.pbkdf2_hmac(digest, PASSWORD.encode(), salt, iterations)


def new_salt() -> bytes:
    """A salt for a user's password."""
    return os.urandom(16)
