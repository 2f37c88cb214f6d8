"""Environment: the state of the cluster that conditions can test, independent of any request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUEST_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class Environment:
    """``capacity_bps`` is for all nodes, None if unknown. ``accessed_ms`` is the age of the last access by page set."""

    time_s: int = 0
    weekday: int = 0
    day: int = 1
    load_ppm: int = 0
    nodes: int = 1
    accessed_ms: Mapping[int, int] = field(default_factory=dict)
    capacity_bps: int | None = None
    request_bytes: int = REQUEST_BYTES  # mean size of a response

    def number(self, subject: str, argument: str) -> int | None:
        match subject:
            case "time":
                return self.time_s
            case "weekday":
                return self.weekday
            case "date":
                return self.day
            case "load":
                return self.load_ppm
            case "nodes":
                return self.nodes
            case "accessed":
                return self.accessed_ms.get(int(argument))
            case _:
                return None

    def text(self, subject: str, argument: str) -> str | None:  # noqa: ARG002
        return None

    def linked(self, pages: int) -> bool:  # noqa: ARG002
        return False


@dataclass(frozen=True, slots=True)
class ShareBasis:
    """The quantities that turn absolute rates into shares."""

    nodes: int = 1
    capacity_bps: int | None = None
    request_bytes: int = REQUEST_BYTES
    has_ceilings: bool = True  # whether an upper bound that is a rate bounds the share, too

    @classmethod
    def of(cls, environment: Environment, *, has_ceilings: bool = True) -> ShareBasis:
        return cls(environment.nodes, environment.capacity_bps, environment.request_bytes, has_ceilings)
