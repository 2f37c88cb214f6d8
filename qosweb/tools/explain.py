"""``qosweb explain``: which class a request is in, which constraints bind it, what share it has, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qosweb.errors import UsageError
from qosweb.tools.situation import environment_of, reading, split_url
from qosweb.webqos import values
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.loader import load
from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.model import conditions as c
from qosweb.webqos.policy.binding import Binding, bind
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.policy.division import divide
from qosweb.webqos.policy.environment import Environment, ShareBasis
from qosweb.webqos.policy.terms import terms_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from qosweb.webqos.model.build import Built
    from qosweb.webqos.model.model import Model


@dataclass(frozen=True, slots=True)
class DescribedRequest:
    """A request as the command line describes it, in an environment."""

    environment: Environment
    numbers: dict[str, int] = field(default_factory=dict)
    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    linking: frozenset[int] = frozenset()  # page sets that link to the page
    model: Model | None = None

    def number(self, subject: str, argument: str) -> int | None:
        if subject == "client_accessed":
            return self.environment.accessed_ms.get(int(argument))
        return self.numbers.get(subject, self.environment.number(subject, argument))

    def text(self, subject: str, argument: str) -> str | None:
        return self.texts.get((subject, argument))

    def linked(self, pages: int) -> bool:
        return self.model is not None and self.model.page_sets[pages].of in self.linking


def explain(arguments: argparse.Namespace) -> int:
    built = load(arguments.file)
    model = built.model
    assert model is not None
    matcher = Matcher(model)
    environment = environment_of(arguments, matcher)
    host, path = split_url(arguments.url, model.settings.site)
    facts = _facts(arguments, matcher, environment, host)
    story = Explanation(built, model, matcher, environment, facts, host, path)
    print(
        json.dumps(story.as_json(), indent=2) if arguments.json else story.as_text(),
        end="" if not arguments.json else "\n",
    )
    return 0


def _facts(arguments: argparse.Namespace, matcher: Matcher, environment: Environment, host: str) -> DescribedRequest:
    numbers: dict[str, int] = {}
    if arguments.size:
        numbers["size"] = reading(values.size_bytes, arguments.size, "--size")
    for name in ("last_access", "last_modified"):
        if text := getattr(arguments, name):
            numbers[name] = reading(values.duration_ms, text, "--" + name.replace("_", "-"))
    texts = {("method", ""): reading(values.method, arguments.method, "--method"), ("host", ""): host}
    if arguments.client:
        texts["client", ""] = reading(values.address, arguments.client, "--client")
    if arguments.owner:
        texts["owner", ""] = arguments.owner
    for line in arguments.header:
        name, colon, value = line.partition(":")
        if not colon:
            raise UsageError(f"--header '{line}': write it as 'Name: value'")
        texts["header", name.strip().lower()] = value.strip()
    for pair in arguments.cookie:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--cookie '{pair}': write it as name=value")
        texts["cookie", name.strip()] = value.strip()
    linking: set[int] = set()
    for url in arguments.linked_from:
        linking |= matcher.watched_sets(*split_url(url, matcher.model.settings.site))
    return DescribedRequest(environment, numbers, texts, frozenset(linking), matcher.model)


class Explanation:
    def __init__(
        self,
        built: Built,
        model: Model,
        matcher: Matcher,
        environment: Environment,
        facts: DescribedRequest,
        host: str,
        path: str,
    ) -> None:
        self._built = built
        self._model = model
        self._host, self._path = host, path
        self._facts = facts
        self.number = matcher.classify(host, path, facts)
        self._class = model.classes[self.number]
        self._coverage = Coverage(model)
        self._binding: Binding = bind(model, self._coverage, environment)
        self._terms = terms_of(model, self._coverage, self._binding, self.number)
        self.share_ppm = self._share(environment)
        rules = model.rules
        self._shadows = [
            at
            for at in matcher.shadows(host, path)
            if (condition := rules[at].condition) is None or c.holds(condition, facts)
        ]

    def as_json(self) -> dict[str, object]:
        terms = self._terms
        return {
            "url": self._host + self._path,
            "class": self._class.name,
            "page_sets": [self._model.page_sets[number].name for number in self._class.pages],
            "always": terms.always,
            "share_under_contention": self.share_ppm / PPM,
            "lifetime_ms": terms.lifetime_ms,
            "response_time_ms": terms.response_ms,
            "channel": None if terms.channel_bytes is None else {"bytes": terms.channel_bytes, "ms": terms.channel_ms},
            "in_minority": terms.in_minority,
            "constraints": [
                {"line": line, "text": text, "state": state, "why": why} for line, text, state, why in self._rules()
            ],
            "before": [self._model.classes[at].name for at in self._after()],
            "after": [self._model.classes[at].name for at in self._ahead()],
        }

    def as_text(self) -> str:
        terms = self._terms
        lines = [f"{self._host}{self._path} is in the class '{self._class.name}'", *self._why_class(), ""]
        rules = list(self._rules())
        if rules:
            width = max(len(str(line)) for line, *_ in rules)
            for line, text, state, why in rules:
                mark = {"in force": "*", "overridden": "-", "not now": " ", "shadow": "~"}[state]
                lines.append(f"  {mark} line {line:>{width}}: {text}")
                lines.append(f"    {' ' * (width + 6)} {state}{f': {why}' if why else ''}")
            lines.append("")
        else:
            lines += ["  no constraint speaks of it", ""]
        if terms.always:
            lines.append("it is scheduled before everything else and never denied for lack of capacity")
        else:
            lines.append(f"share if every class asks for more than it gets: {self.share_ppm * 100 / PPM:.4g}%")
            if terms.lifetime_ms is not None:
                lines.append(f"it may wait {terms.lifetime_ms} ms")
        if terms.response_ms is not None:
            lines.append(f"it is to be answered within {terms.response_ms} ms")
        if terms.channel_bytes is not None and terms.channel_ms is not None:
            rate = terms.channel_bytes * 1000 // terms.channel_ms
            lines.append(f"its channel: {terms.channel_bytes} bytes in {terms.channel_ms} ms, {rate} bytes per second")
        for label, numbers in (("it goes before", self._after()), ("it comes after", self._ahead())):
            if numbers:
                names = [self._model.classes[at].name for at in numbers]
                shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
                lines.append(f"{label}: {shown}")
        return "".join(f"{line}\n" for line in lines)

    def _why_class(self) -> list[str]:
        one = self._class
        if not one.pages:
            lines = ["  no pattern of a constraint covers the page"]
        else:
            lines = [f"  the page is covered by: {', '.join(self._model.page_sets[at].name for at in one.pages)}"]
        for at in sorted({at for way in one.ways for at in (*way.held, *way.failed)}):
            atom = self._model.atoms[at]
            if isinstance(atom, c.Linked):
                what = f"the page is one of {self._model.page_sets[atom.pages].name}"
            else:
                what = self._built.atom_texts[at]
            lines.append(f"  {'holds' if c.holds(atom, self._facts) else 'does not hold'}: {what}")
        return lines

    def _share(self, environment: Environment) -> int:
        demand = [PPM] * len(self._model.classes)
        for at in self._binding.always:
            demand[at] = 0
        shares = divide(self._model, self._coverage, self._binding, ShareBasis.of(environment), demand)
        return shares[self.number]

    def _rules(self) -> list[tuple[int, str, str, str]]:
        found: list[tuple[int, str, str, str]] = []
        active = {one.number: one for one in self._binding.in_force}
        for number, rule in enumerate(self._model.constraints):
            line = self._built.line(number)
            if rule.shadow:
                if number in self._shadows:
                    found.append((line, rule.text, "shadow", "counted, without effect"))
                continue
            if self.number not in self._coverage.classes(rule.pages):
                continue
            by = [one.by for one in self._binding.overrides if one.constraint == number and self.number in one.classes]
            one = active.get(number)
            if one is not None and (self.number in one.lower or self.number in one.upper):
                found.append((line, rule.text, "in force", self._together(one.lower or one.upper)))
            elif by:
                other = self._built.line(by[0])
                why = f"line {other} has a condition that holds, for the same pages and attribute"
                found.append((line, rule.text, "overridden", why))
            else:
                found.append((line, rule.text, "not now", "its condition does not hold"))
        found += self._orders()
        return sorted(found, key=lambda entry: entry[0])

    def _orders(self) -> Iterator[tuple[int, str, str, str]]:
        """The priorities that the class has to do with."""
        pairs = list(zip(self._binding.before, self._binding.before_rules, strict=True))
        first = len(self._model.constraints)
        for number, rule in enumerate(self._model.priorities):
            line = self._built.source.line_of(self._built.priority_rules[number].span.start)
            if rule.shadow:
                if first + number in self._shadows:
                    yield line, rule.text, "shadow", "counted, without effect"
            elif any(self.number in self._coverage.classes(pages) for pages in rule.chain):
                if any(self.number in pair and by == number for pair, by in pairs):
                    yield line, rule.text, "in force", ""
                else:
                    why = "its condition does not hold, or it changes nothing for this class"
                    yield line, rule.text, "not now", why

    def _together(self, classes: tuple[int, ...]) -> str:
        if len(classes) == 1:
            return ""
        names = [self._model.classes[at].name for at in classes]
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return f"for these classes together: {shown}"

    def _after(self) -> list[int]:
        return [b for a, b in self._binding.before if a == self.number]

    def _ahead(self) -> list[int]:
        return [a for a, b in self._binding.before if b == self.number]
