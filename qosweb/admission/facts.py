"""Facts about a request that admission control may ask for, as protocols.

The server and the middleware implement them on top of their own request objects. A fact that is expensive to find is
asked for only by policies that have a rule on it: `file`, for example, is looked up only where `Classifier.needs_file`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class FileFacts(Protocol):
    """The file that answers a request."""

    @property
    def size(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...
    @property
    def owner(self) -> str | None:
        """The name of the user who owns the file."""


class HeadFacts(Protocol):
    """What the head of a request says, whoever sends it and whenever."""

    @property
    def method(self) -> str: ...
    @property
    def host(self) -> str:
        """In lower case; empty if unknown."""

    @property
    def path(self) -> str | None:
        """The canonical path, decoded and without query; None if the request target is not acceptable."""

    def field_lines(self, name: str) -> Sequence[str]:
        """The values of all header fields of this name, in order."""


class RequestFacts(HeadFacts, Protocol):
    """All that a policy may ask about one request."""

    @property
    def client(self) -> str:
        """The address of the client."""

    @property
    def origin_form(self) -> str:
        """The canonical path, escaped, with the query: what another node is asked for."""

    @property
    def ticket(self) -> str | None:
        """The ticket that another node of the cluster gave the client; see `qosweb.engine.local.tickets`."""

    @property
    def file(self) -> FileFacts | None:
        """None: not looked up, or there is none."""
