"""Value types of the public API: the request to explain, the explanation, and the share of a class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qosweb.webqos.policy.terms import Terms


@dataclass(frozen=True, slots=True)
class DescribedRequest:
    """A request as far as conditions can test it; None means unknown. ``path`` is canonical and decoded.

    ``host`` defaults to the site of the specification. ``linked_from`` lists pages, as (host, path), that link to
    this page.
    """

    path: str
    host: str | None = None
    method: str = "GET"
    client: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    cookies: Mapping[str, str] = field(default_factory=dict)
    size_bytes: int | None = None
    owner: str | None = None
    last_access_ms: int | None = None  # ago
    last_modified_ms: int | None = None  # ago
    linked_from: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainedRule:
    """A constraint or priority about the class of the request."""

    line: int
    text: str  # in canonical form
    state: Literal["in force", "overridden", "not now", "shadow"]
    why: str


@dataclass(frozen=True, slots=True)
class ExplainedCondition:
    """A condition on requests that distinguishes the class from others for the same page."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """The treatment of a request by a specification in one environment."""

    host: str
    path: str
    class_name: str
    page_sets: tuple[str, ...]  # those that cover the page
    conditions: tuple[ExplainedCondition, ...]
    rules: tuple[ExplainedRule, ...]  # by line
    terms: Terms
    share_ppm: int  # if every class demands more than it gets
    goes_before: tuple[str, ...]  # classes with a lower priority
    comes_after: tuple[str, ...]  # classes with a higher priority


@dataclass(frozen=True, slots=True)
class ClassShare:
    """Demand, share and own bounds of a class, in parts per million of the capacity."""

    name: str
    demand_ppm: int
    share_ppm: int
    floor_ppm: int | None  # bounds of several classes together are not included
    ceiling_ppm: int | None
    always: bool
