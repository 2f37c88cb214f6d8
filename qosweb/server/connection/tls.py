"""TLS for the public port. The certificate can be changed while the server runs.

Each connection takes the context of its time. Loading another certificate into a context that is in use would not do:
OpenSSL keeps one for each kind of key, and a client that prefers the old kind would go on seeing the old one.
"""

import ssl
from pathlib import Path

from qosweb.errors import UsageError
from qosweb.server.private_files import read_private_file

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2: authenticated encryption with forward secrecy


class TlsFiles:
    """Two files and the context made from them; ``context`` is for the next connection."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self.context = self._new_context()

    def reload(self) -> None:
        """Use the files as they are now for new connections; raises UsageError and changes nothing if they are bad."""
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
        return "expected a PEM certificate in the first and its PEM private key in the second"
    return str(error)


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one without a passphrase")
