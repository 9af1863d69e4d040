"""Certificates of one test session: an authority, brokers and clients that it vouches for, as PEM files."""

import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class Issued(NamedTuple):
    """A certificate and its key; `both` has one after the other, as Kafka wants them."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates, and keeps them in a directory."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, name: str, *, hosts: tuple[str, ...] = (), is_expired: bool = False, password: str | None = None
    ) -> Issued:
        """A certificate for `hosts`, valid today or until yesterday; with a password its key is encrypted."""
        key = ec.generate_private_key(ec.SECP256R1())
        end = datetime.datetime.now(datetime.UTC) + (-_DAY if is_expired else _DAY)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - 2 * _DAY)
            .not_valid_after(end)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        lock: serialization.KeySerializationEncryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)
        issued = Issued(*(self._directory / f"{name}.{part}" for part in ("crt", "key", "both")))
        issued.certificate.write_bytes(certificate)
        issued.key.write_bytes(private)
        issued.both.write_bytes(private + certificate)
        return issued
