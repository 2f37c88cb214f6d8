"""What the tests of the language share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qosweb.webqos.check.check import check_source
from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.model.build import Built, build
from qosweb.webqos.policy.binding import bind
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.policy.division import divide
from qosweb.webqos.policy.environment import Environment, ShareBasis
from qosweb.webqos.syntax.diagnostics import Diagnostic, summary
from qosweb.webqos.syntax.positions import Source
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.webqos.model.model import Model


@dataclass
class Facts:
    """What a test says of a request; all else is unknown."""

    numbers: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # 'header x-tier', 'client', ...
    links: frozenset[int] = frozenset()

    def number(self, subject: str, argument: str) -> int | None:
        return self.numbers.get(f"{subject} {argument}".strip())

    def text(self, subject: str, argument: str) -> str | None:
        return self.texts.get(f"{subject} {argument}".strip())

    def linked(self, pages: int) -> bool:
        return pages in self.links


def built(text: str) -> Built:
    return build(Source("test", text))


def model_of(text: str) -> Model:
    """The model of a specification without mistakes."""
    result = built(text)
    assert result.model is not None, [summary(result.source, one) for one in result.found]
    return result.model


def found_in(text: str) -> list[Diagnostic]:
    return check_source(Source("test", text))


def class_of(model: Model, path: str, host: str = "localhost", facts: Facts | None = None) -> str:
    return model.classes[Matcher(model).classify(host, path, facts or Facts())].name


def shares_of(
    text: str, demand: dict[str, float] | None = None, environment: Environment | None = None
) -> dict[str, float]:
    """The share of each class by name; without a demand everybody asks for everything."""
    model = model_of(text)
    environment = environment or Environment()
    coverage = Coverage(model)
    binding = bind(model, coverage, environment)
    names = [one.name for one in model.classes]
    if demand is None:
        asks = [0 if at in binding.always else PPM for at in range(len(names))]
    else:
        assert set(demand) <= set(names), (names, demand)
        asks = [round(demand.get(name, 0.0) * PPM) for name in names]
    given = divide(model, coverage, binding, ShareBasis.of(environment), asks)
    return {name: round(share / PPM, 4) for name, share in zip(names, given, strict=True)}
