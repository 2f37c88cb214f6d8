"""Explanation of a request: its class, the rules about the class, and its share under contention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qosweb.webqos.api_types import ExplainedCondition, ExplainedRule, Explanation
from qosweb.webqos.class_shares import contended_demand
from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.model import conditions as c
from qosweb.webqos.policy.binding import bind
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.policy.division import divide
from qosweb.webqos.policy.environment import Environment, ShareBasis
from qosweb.webqos.policy.terms import terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qosweb.webqos.api_types import DescribedRequest
    from qosweb.webqos.model.model import Model
    from qosweb.webqos.policy.binding import Binding
    from qosweb.webqos.specification import Specification

NAMES_MAX = 5  # of classes that share a bound, in one line


def explain_request(policy: Specification, request: DescribedRequest, environment: Environment) -> Explanation:
    """See ``qosweb.webqos.explain``."""
    model = policy.require_model()
    matcher = Matcher(model)
    host = request.host if request.host is not None else model.settings.site or ""
    linking = frozenset(number for page in request.linked_from for number in matcher.watched_sets(*page))
    facts = _RequestFacts(request, host, environment, linking, model)
    number = matcher.classify(host, request.path, facts)
    coverage = Coverage(model)
    binding = bind(model, coverage, environment)
    share_ppm = divide(model, coverage, binding, ShareBasis.of(environment), contended_demand(model, binding))[number]
    request_class = model.classes[number]
    shadows = [
        at
        for at in matcher.shadows(host, request.path)
        if (condition := model.rules[at].condition) is None or c.holds(condition, facts)
    ]
    rules = _RuleExplainer(policy, model, coverage, binding, number, shadows)
    return Explanation(
        host,
        request.path,
        request_class.name,
        tuple(model.page_sets[at].name for at in request_class.pages),
        tuple(_conditions(policy, model, number, facts)),
        tuple(sorted((*rules.constraints(), *rules.priorities()), key=lambda rule: rule.line)),
        terms_of(model, coverage, binding, number),
        share_ppm,
        tuple(model.classes[b].name for a, b in binding.before if a == number),
        tuple(model.classes[a].name for a, b in binding.before if b == number),
    )


@dataclass(frozen=True, slots=True)
class _RequestFacts:
    """A described request and its environment, as ``conditions.Facts``."""

    request: DescribedRequest
    host: str
    environment: Environment
    linking: frozenset[int]  # page sets that link to the page
    model: Model

    def number(self, subject: str, argument: str) -> int | None:
        match subject:
            case "size":
                return self.request.size_bytes
            case "last_access":
                return self.request.last_access_ms
            case "last_modified":
                return self.request.last_modified_ms
            case "client_accessed":
                return self.environment.accessed_ms.get(int(argument))
            case _:
                return self.environment.number(subject, argument)

    def text(self, subject: str, argument: str) -> str | None:
        match subject:
            case "method":
                return self.request.method
            case "host":
                return self.host
            case "client":
                return self.request.client
            case "owner":
                return self.request.owner
            case "header":
                return self.request.headers.get(argument)
            case "cookie":
                return self.request.cookies.get(argument)
            case _:
                return None

    def linked(self, pages: int) -> bool:
        return self.model.page_sets[pages].of in self.linking


def _conditions(policy: Specification, model: Model, number: int, facts: _RequestFacts) -> Iterator[ExplainedCondition]:
    for at in sorted({at for way in model.classes[number].ways for at in (*way.held, *way.failed)}):
        atom = model.atoms[at]
        if isinstance(atom, c.Linked):
            text = f"the page is one of {model.page_sets[atom.pages].name}"
        else:
            text = policy.atom_texts[at]
        yield ExplainedCondition(text, c.holds(atom, facts))


class _RuleExplainer:
    """The state of each rule about the class ``number``. ``shadows`` are rules whose pages and condition apply."""

    def __init__(
        self,
        policy: Specification,
        model: Model,
        coverage: Coverage,
        binding: Binding,
        number: int,
        shadows: list[int],
    ) -> None:
        self._policy = policy
        self._model = model
        self._coverage = coverage
        self._binding = binding
        self._number = number
        self._shadows = shadows

    def constraints(self) -> Iterator[ExplainedRule]:
        active = {one.number: one for one in self._binding.in_force}
        for number, rule in enumerate(self._model.constraints):
            line = self._policy.line(number)
            if rule.shadow:
                if number in self._shadows:
                    yield ExplainedRule(line, rule.text, "shadow", "counted, without effect")
                continue
            if self._number not in self._coverage.classes(rule.pages):
                continue
            by = [
                override.by
                for override in self._binding.overrides
                if override.constraint == number and self._number in override.classes
            ]
            constraint = active.get(number)
            if constraint is not None and (self._number in constraint.lower or self._number in constraint.upper):
                yield ExplainedRule(
                    line, rule.text, "in force", self._describe_classes(constraint.lower or constraint.upper)
                )
            elif by:
                other = self._policy.line(by[0])
                why = f"line {other} has a condition that holds, for the same pages and attribute"
                yield ExplainedRule(line, rule.text, "overridden", why)
            else:
                yield ExplainedRule(line, rule.text, "not now", "its condition does not hold")

    def priorities(self) -> Iterator[ExplainedRule]:
        pairs = list(zip(self._binding.before, self._binding.before_rules, strict=True))
        first = len(self._model.constraints)
        for number, rule in enumerate(self._model.priorities):
            line = self._policy.priority_line(number)
            if rule.shadow:
                if first + number in self._shadows:
                    yield ExplainedRule(line, rule.text, "shadow", "counted, without effect")
            elif any(self._number in self._coverage.classes(pages) for pages in rule.chain):
                if any(self._number in pair and by == number for pair, by in pairs):
                    yield ExplainedRule(line, rule.text, "in force", "")
                else:
                    why = "its condition does not hold, or it changes nothing for this class"
                    yield ExplainedRule(line, rule.text, "not now", why)

    def _describe_classes(self, classes: tuple[int, ...]) -> str:
        if len(classes) == 1:
            return ""
        names = [self._model.classes[at].name for at in classes]
        more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
        return f"for these classes together: {', '.join(names[:NAMES_MAX])}{more}"
