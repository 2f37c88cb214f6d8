"""What an analysis is asked for. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qosweb.analytics.read.rows import AnalysisLimits

if TYPE_CHECKING:
    from qosweb.analytics.read.policies import LoggedPolicy
    from qosweb.analytics.read.sources import Sources


@dataclass(frozen=True)
class AnalysisRequest:
    """What to read and how to judge it."""

    sources: Sources
    spec: LoggedPolicy | None = None
    limits: AnalysisLimits = field(default_factory=AnalysisLimits)
    response: str = "service"
