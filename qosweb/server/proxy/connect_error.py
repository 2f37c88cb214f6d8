"""Describes a failed connection to an upstream server, for the client and for the operator. Pure."""

from __future__ import annotations

import os
import ssl
from typing import NamedTuple


class ConnectError(NamedTuple):
    text: str  # for the client: nothing about the network behind the node
    detail: str  # for the operator


def describe(error: OSError) -> ConnectError:
    """``error``: TimeoutError and ssl.SSLError are OSErrors, too."""
    match error:
        case ssl.SSLCertVerificationError():
            why = error.verify_message.rstrip(".")
            return ConnectError("The certificate of the upstream server is not valid.", f"certificate: {why}")
        case ssl.SSLError():
            reason = (error.reason or "handshake failed").replace("_", " ").lower()
            return ConnectError("The TLS handshake with the upstream server failed.", f"TLS: {reason}")
        case TimeoutError():
            return ConnectError("The upstream server cannot be reached.", "no connection in time")
    said = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or type(error).__name__
    return ConnectError("The upstream server cannot be reached.", said.lower())
