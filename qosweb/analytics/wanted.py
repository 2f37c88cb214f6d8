"""What an analysis is asked for. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qosweb.analytics.rows import Limits

if TYPE_CHECKING:
    from qosweb.analytics.policies import Policy
    from qosweb.analytics.sources import Sources


@dataclass(frozen=True)
class Wanted:
    """What to read and how to judge it."""

    sources: Sources
    spec: Policy | None = None
    limits: Limits = field(default_factory=Limits)
    response: str = "service"
