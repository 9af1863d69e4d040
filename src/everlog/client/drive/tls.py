"""TLS as the settings ask for it, and what goes wrong with it, in words."""

import os
import ssl

from everlog.client.core.security.security import SecuritySettings, TlsFiles
from everlog.model.errors import ConfigError

_NO_TLS_THERE = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE"})
"""What OpenSSL says of an answer that is not TLS."""


class TlsContexts:
    """The context for new connections, made again when one of its files has changed.

    Certificates are renewed while clients run; connections that are open keep what they began with.
    """

    def __init__(self, settings: SecuritySettings) -> None:
        self._settings = settings
        self._stamps = self._look()
        self._context = tls_context(settings)

    def current(self) -> ssl.SSLContext | None:
        """The context to connect with now, None if connections are not to be encrypted."""
        stamps = self._look()
        if stamps != self._stamps:
            try:
                self._context = tls_context(self._settings)
                self._stamps = stamps
            except ConfigError:
                pass  # Not all of it is written yet: the old ones will do until the next connection.
        return self._context

    def _look(self) -> list[tuple[int, int] | None]:
        return [_stamp(path) for path in self._settings.tls_files]


def tls_context(settings: SecuritySettings) -> ssl.SSLContext | None:
    """The context for connections to brokers, None if they are not to be encrypted.

    Files are read here and now; ConfigError names the setting whose file is missing or not what it should be.
    """
    if not settings.uses_tls:
        return None
    if settings.ssl_context is not None:
        return settings.ssl_context
    files = settings.tls_files
    context = _trusting(files)
    context.check_hostname = settings.checks_hostname
    if files.certfile is not None:
        _present(context, files, settings)
    if settings.ssl_ciphers is not None:
        try:
            context.set_ciphers(settings.ssl_ciphers)
        except ssl.SSLError:
            raise ConfigError(
                f"setting ssl_ciphers={settings.ssl_ciphers!r}: expected ciphers by OpenSSL's names"
            ) from None
    return context


def tls_problem(address: str, error: Exception) -> str:
    """Why TLS with a broker failed: what is wrong, and where that can be put right."""
    start = f"broker {address}: no TLS connection: "
    if isinstance(error, ssl.SSLCertVerificationError):
        return start + _untrusted(error)
    if isinstance(error, ssl.SSLError):
        reason = _reason(error)
        if reason in _NO_TLS_THERE:
            return f"{start}the answer is not TLS: is it a plaintext listener (security_protocol)?"
        if "ALERT" in reason or "CERTIFICATE_REQUIRED" in reason:
            return (
                f"{start}the broker refused it ({_plain(reason)}): "
                "does it ask for a certificate of ours (ssl_certfile, ssl_keyfile)?"
            )
        return f"{start}{_plain(reason)}"
    return (
        f"{start}the broker hung up in the handshake: is it a plaintext listener (security_protocol), "
        "or does it ask for a certificate (ssl_certfile)?"
    )


def _stamp(path: str | None) -> tuple[int, int] | None:
    try:
        found = None if path is None else os.stat(path)
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_ino)


def _trusting(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.cafile is None:
        context.load_default_certs()
        return context
    try:
        context.load_verify_locations(cafile=files.cafile)
    except ssl.SSLError as error:
        raise _wrong_file("ssl_cafile", files.cafile, "certificates in PEM", error) from None
    except OSError as error:
        raise _wrong_file("ssl_cafile", files.cafile, "a file that can be read", error) from None
    return context


def _present(context: ssl.SSLContext, files: TlsFiles, settings: SecuritySettings) -> None:
    assert files.certfile is not None
    # Without a function OpenSSL would ask on the terminal for a password that is missing.
    password = settings.ssl_key_password or ""
    try:
        context.load_cert_chain(files.certfile, files.keyfile, password=lambda: password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _wrong_file("ssl_keyfile", files.keyfile, "the key of ssl_certfile", error) from None
        expected = "a certificate and its key in PEM, the key unencrypted or with its ssl_key_password"
        raise _wrong_file("ssl_certfile", files.certfile, expected, error) from None
    except OSError as error:
        name, path = _unreadable_of(files)
        raise _wrong_file(name, path, "a file that can be read", error) from None


def _unreadable_of(files: TlsFiles) -> tuple[str, str | None]:
    try:
        with open(files.certfile or "", "rb"):
            return "ssl_keyfile", files.keyfile
    except OSError:
        return "ssl_certfile", files.certfile


def _wrong_file(name: str, path: str | None, expected: str, error: OSError) -> ConfigError:
    said = _reason(error) if isinstance(error, ssl.SSLError) else error.strerror or str(error)
    return ConfigError(f"setting {name}={path!r}: expected {expected} ({_plain(said)})")


def _untrusted(error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message or str(error)
    if "ostname mismatch" in said or "IP address mismatch" in said:
        return f"its certificate is for another host ({said}); ssl_check_hostname=False would not look"
    if "expired" in said:
        return f"its certificate is not valid any more ({said})"
    if "not yet valid" in said:
        return f"its certificate is not valid yet ({said})"
    return f"its certificate is of an authority we do not trust ({said}): give the authority's as ssl_cafile"


def _reason(error: ssl.SSLError) -> str:
    # The attribute is missing where Python, not OpenSSL, has made the error.
    reason: str | None = getattr(error, "reason", None)
    return reason or str(error)


def _plain(reason: str) -> str:
    return reason.replace("_", " ").lower()
