"""TLS context of the public port, with reload of certificate and key at run time.

A reload makes a new context for new connections. Loading a new certificate into the existing context would not work:
OpenSSL keeps one certificate per key type, so clients that prefer the old key type would still get the old certificate.
"""

import ssl
from pathlib import Path

from qosweb.errors import UsageError
from qosweb.server.private_files import read_private_file

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2: authenticated encryption with forward secrecy


class TlsFiles:
    """Certificate file, key file, and the context made from them for new connections."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self.context = self._new_context()

    def reload(self) -> None:
        """Read the files again for new connections. Raises UsageError, and changes nothing, if they are invalid."""
        self.context = self._new_context()

    def _new_context(self) -> ssl.SSLContext:
        try:
            self._certificate.read_bytes()
        except OSError as error:
            raise UsageError(f"--tls-cert {self._certificate}: {error.strerror}") from None
        read_private_file("--tls-key", self._key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(CIPHERS)
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise UsageError(f"--tls-cert {self._certificate} with --tls-key {self._key}: {_reason(error)}") from None
        return context


def _reason(error: ssl.SSLError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the key does not belong to the certificate"
        return "expected a PEM certificate in the first file and its PEM private key in the second"
    return str(error)


def _no_password() -> str:
    raise ValueError("the key is encrypted; use a key without a passphrase")
