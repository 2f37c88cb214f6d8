"""Request facts: protocols for what admission control reads from a request.

The server and the middleware implement them on top of their own request objects. An expensive fact is read only if a
rule of the policy needs it: `file`, for example, only if `Classifier.needs_file`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class FileFacts(Protocol):
    """The file that a request is for."""

    @property
    def size(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...
    @property
    def owner(self) -> str | None:
        """The name of the user who owns the file."""


class HeadFacts(Protocol):
    """Facts in the head of a request, independent of client and time."""

    @property
    def method(self) -> str: ...
    @property
    def host(self) -> str:
        """The host in lower case; empty if unknown."""

    @property
    def path(self) -> str | None:
        """The canonical path, decoded and without query; None if the request target is not acceptable."""

    def field_lines(self, name: str) -> Sequence[str]:
        """The values of all header fields of this name, in order."""


class RequestFacts(HeadFacts, Protocol):
    """All facts of one request that conditions may depend on."""

    @property
    def client(self) -> str:
        """The address of the client."""

    @property
    def origin_form(self) -> str:
        """Path and query as the client sent them: the target of the request at another node."""

    @property
    def ticket(self) -> str | None:
        """The ticket that another node of the cluster gave the client; see `qosweb.engine.local.tickets`."""

    @property
    def file(self) -> FileFacts | None:
        """The file; None if there is none, or if it was not looked up."""
