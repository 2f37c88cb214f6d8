"""Helpers for the tests of the language."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qosweb.webqos import Specification, compile_policy, shares
from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.webqos import Diagnostic, Environment
    from qosweb.webqos.model.model import Model


@dataclass
class Facts:
    """Facts that a test sets; all others are unknown."""

    numbers: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # 'header x-tier', 'client', ...
    links: frozenset[int] = frozenset()

    def number(self, subject: str, argument: str) -> int | None:
        return self.numbers.get(f"{subject} {argument}".strip())

    def text(self, subject: str, argument: str) -> str | None:
        return self.texts.get(f"{subject} {argument}".strip())

    def linked(self, pages: int) -> bool:
        return pages in self.links


def built(text: str) -> Specification:
    return compile_policy(text, "test", check=False)


def model_of(text: str) -> Model:
    """The model of a specification without errors."""
    return built(text).require_model()


def found_in(text: str) -> list[Diagnostic]:
    return compile_policy(text, "test").diagnostics


def class_of(model: Model, path: str, host: str = "localhost", facts: Facts | None = None) -> str:
    return model.classes[Matcher(model).classify(host, path, facts or Facts())].name


def shares_of(
    text: str, demand: dict[str, float] | None = None, environment: Environment | None = None
) -> dict[str, float]:
    """The share of each class by name; by default all classes demand everything."""
    asks = None if demand is None else {name: round(part * PPM) for name, part in demand.items()}
    return {one.name: round(one.share_ppm / PPM, 4) for one in shares(built(text), environment, asks)}
