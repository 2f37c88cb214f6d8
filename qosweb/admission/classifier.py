"""Classifier: finds the QoS class of a request under the policy in force; `default` if no rule matches.

If the head alone decides, the server may cache the class of a head (`class_of_head`). If the client, earlier requests
or the file matter, or if accesses have to be recorded for later conditions, the server classifies each request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.admission.access_history import AccessHistory
from qosweb.admission.link_map import LinkMap
from qosweb.webqos import Environment
from qosweb.webqos.match.matcher import Branch, Matcher
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.model import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from qosweb.admission.clock import Clock
    from qosweb.admission.facts import HeadFacts, RequestFacts
    from qosweb.admission.link_map import PageFile
    from qosweb.webqos.model.model import Model

IN_HEAD = frozenset({"header", "cookie", "method", "host"})  # subjects that depend on the head alone
OF_FILE = frozenset({"size", "owner", "last_modified"})


class _ConditionFacts:
    """Facts of a request head for the conditions of a policy."""

    def __init__(self, facts: HeadFacts, path: str) -> None:
        self._facts = facts
        self._path = path
        self._cookies: dict[str, str] | None = None

    def number(self, subject: str, argument: str) -> int | None:  # noqa: ARG002
        return None

    def linked(self, pages: int) -> bool:  # noqa: ARG002
        return False

    def text(self, subject: str, argument: str) -> str | None:
        facts = self._facts
        match subject:
            case "header":
                lines = facts.field_lines(argument)
                return ", ".join(lines) if lines else None
            case "cookie":
                if self._cookies is None:
                    self._cookies = _cookies(facts.field_lines("Cookie"))
                return self._cookies.get(argument)
            case "method":
                return facts.method
            case "host":
                return facts.host
            case _:
                return None


class _AllFacts(_ConditionFacts):
    """All facts of a request for the conditions of a policy."""

    def __init__(self, facts: RequestFacts, classifier: Classifier, path: str, now: float) -> None:
        super().__init__(facts, path)
        self._request = facts
        self._classifier = classifier
        self._now = now

    def number(self, subject: str, argument: str) -> int | None:
        classifier = self._classifier
        if subject == "client_accessed":
            return classifier.accesses.of_client_ms(int(argument), self._request.client, self._now)
        if subject in c.OF_CLUSTER:
            return classifier.environment().number(subject, argument)
        if subject == "last_access":
            return classifier.accesses.of_path_ms(self._path, self._now)
        file = self._request.file
        if file is None:
            return None
        if subject == "size":
            return file.size
        if subject == "last_modified":
            return max(0, int(classifier.clock.wall(self._now) * 1000) - file.mtime_ns // 1_000_000)
        return None

    def text(self, subject: str, argument: str) -> str | None:
        if subject == "client":
            return self._request.client.partition("%")[0].removeprefix("::ffff:")
        if subject == "owner":
            file = self._request.file
            return None if file is None else file.owner
        return super().text(subject, argument)

    def linked(self, pages: int) -> bool:
        return self._classifier.is_linked(pages, self._path)


class Classifier:
    """Classifies requests by one policy. Without a model there is one class."""

    def __init__(
        self,
        clock: Clock,
        model: Model | None = None,
        index: str = "index.html",
        text: str = "",
        on_access: Callable[[Iterable[int]], None] | None = None,
        environment: Callable[[], Environment] = Environment,
    ) -> None:
        """`on_access` is called with the page sets of a requested page, if conditions of the policy depend on them."""
        self.clock = clock
        self.environment = environment  # the state of the cluster, for conditions on it
        self._on_access = on_access
        self.model = model
        self.text = text  # the specification as it was written
        self.names = ["default"] if model is None else [one.name for one in model.classes]
        self.default = 0 if model is None else model.default
        self.policy_hash = "" if model is None else digest(model)
        self.accesses = AccessHistory()
        # How many requests each shadow rule covered, by its number among all rules.
        self.shadow_rules = {} if model is None else {at: rule for at, rule in enumerate(model.rules) if rule.shadow}
        self.shadow_counts = dict.fromkeys(self.shadow_rules, 0)
        self._matcher = None if model is None else Matcher(model)
        leaves = [] if model is None else [leaf for atom in model.atoms for leaf in c.leaves(atom)]
        self._records_paths = any(isinstance(leaf, c.Within) and leaf.subject == "last_access" for leaf in leaves)
        self._is_of_head = [] if model is None else [all(map(_is_of_head, c.leaves(atom))) for atom in model.atoms]
        shadows = [one.condition for one in self.shadow_rules.values() if one.condition is not None]
        asked = [*leaves, *(leaf for condition in shadows for leaf in c.leaves(condition))]
        self.needs_file = any(map(_is_of_file, asked))  # to classify a request, or to count shadow rules
        self._link_sets = {} if model is None else _link_sets(model)
        # A separate matcher for the thread that reads files.
        self._link_matcher = None if model is None or not self._link_sets else Matcher(model)
        self.link_map = LinkMap(self._linking, index, _own_hosts(model)) if model and self._link_sets else None

    def class_of_head(self, facts: HeadFacts) -> int | None:
        """The class of every request with this head; None if the head does not decide or requests are recorded."""
        if self._matcher is None:
            return 0
        path = facts.path
        if path is None:
            return None
        decision = self._decide(facts.host, path)
        if not isinstance(decision, Branch):
            return decision
        of_head = _ConditionFacts(facts, path)
        while isinstance(decision, Branch):
            if not self._is_of_head[decision.atom]:
                return None
            decision = decision.yes if decision.test(of_head) else decision.no
        return decision

    def class_of_page(self, host: str, path: str) -> int | None:
        """The class of every request for this page; None if the page alone does not decide or requests are recorded."""
        decision = self._decide(host, path)
        return None if isinstance(decision, Branch) else decision

    def _decide(self, host: str, path: str) -> int | Branch | None:
        """The decision about a page; None if requests for it are recorded."""
        matcher = self._matcher
        if matcher is None:
            return 0
        if self._records_paths or matcher.watched_sets(host, path):
            return None
        if self.shadow_counts and matcher.shadows(host, path):
            return None
        return matcher.decide(host, path)

    def class_of(self, facts: RequestFacts, now: float) -> int:
        """The class of a request; `default` for one without an acceptable target."""
        if self._matcher is None:
            return self.default
        path = facts.path
        if path is None:
            return self.default
        return self._matcher.classify(facts.host, path, _AllFacts(facts, self, path, now))

    def record_access(self, facts: RequestFacts, now: float) -> None:
        """Record a request for conditions on earlier requests and for shadow rules.

        The server records those for existing pages, and all requests if there are upstream servers.
        """
        if self._matcher is None:
            return
        path = facts.path
        if path is None:
            return
        for at in self._matcher.shadows(facts.host, path) if self.shadow_counts else ():
            condition = self.shadow_rules[at].condition
            if condition is None or c.holds(condition, _AllFacts(facts, self, path, now)):
                self.shadow_counts[at] += 1
        if self._records_paths:
            self.accesses.note_path(path, now)
        if watched := self._matcher.watched_sets(facts.host, path):
            self.accesses.note(watched, facts.client, now)
            if self._on_access is not None:
                self._on_access(watched)

    def is_linked(self, pages: int, path: str) -> bool:
        if self.link_map is None:
            return False
        return self.link_map.has(self._link_sets[pages], self.link_map.canonical(path))

    def note_links(self, host: str, path: str, values: list[str]) -> None:
        """Record the Link fields of an upstream server's response."""
        if self.link_map is None or self._matcher is None:
            return
        numbers = frozenset(self._link_sets.values()) & frozenset(self._matcher.watched_sets(host, path))
        if numbers:
            self.link_map.note(numbers, path, values)

    def refresh_links(self, root: Path) -> None:
        """Read the links of changed files below `root`. Blocks on the disk."""
        if self.link_map is not None:
            self.link_map.refresh(root)

    def refresh_links_from(self, files: Iterable[PageFile]) -> None:
        """The same for a site whose files are not in one folder."""
        if self.link_map is not None:
            self.link_map.refresh_from(files)

    def _linking(self, path: str) -> frozenset[int]:
        """The page sets of ``links(...)`` that a file of the site is in, under any host that they name."""
        assert self._link_matcher is not None
        model = self._link_matcher.model
        sets = frozenset(self._link_sets.values())
        hosts = {pattern.host for number in sets for pattern in model.page_sets[number].patterns if pattern.host}
        found: set[int] = set()
        for host in (*hosts, model.settings.site or ""):
            found |= self._link_matcher.watched_sets(host, path)
        return sets & found


def _is_of_file(leaf: c.Leaf | c.Atom) -> bool:
    return isinstance(leaf, c.Within | c.OneOf | c.Like | c.Has) and leaf.subject in OF_FILE


def _link_sets(model: Model) -> dict[int, int]:
    return {number: one.of for number, one in enumerate(model.page_sets) if one.kind == "links"}


def _own_hosts(model: Model) -> frozenset[str]:
    """The hosts that a specification names: names of this site."""
    named = {pattern.host for page_set in model.page_sets for pattern in page_set.patterns}
    return frozenset(host for host in {*named, model.settings.site} if host is not None and "*" not in host)


def _is_of_head(leaf: c.Leaf | c.Atom) -> bool:
    return isinstance(leaf, c.OneOf | c.Like | c.Has) and leaf.subject in IN_HEAD


def _cookies(values: Sequence[str]) -> dict[str, str]:
    """Cookies by name. The first of a name counts (RFC 6265 section 5.4 sends the most specific first)."""
    found: dict[str, str] = {}
    for value in values:
        for pair in value.split(";"):
            name, equals, text = pair.strip().partition("=")
            if equals:
                found.setdefault(name.strip(), text.strip().strip('"'))
    return found
