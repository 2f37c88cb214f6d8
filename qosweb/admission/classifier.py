"""The class of a request: what the specification says, or ``default`` for all without one.

Where the page and the head alone decide, a plain request is labelled once and the answer remembered with its head.
Where the client or the page's age decides, or where a request has to be noted, it passes the stages each time.
"""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

from qosweb.admission.access_history import AccessHistory
from qosweb.admission.link_map import LinkMap
from qosweb.http.hosts import parse_host
from qosweb.http.targets import BadTarget, parse_target
from qosweb.webqos import Environment
from qosweb.webqos.match.matcher import Branch, Matcher
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.model import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from aiohttp.http import RawRequestMessage

    from qosweb.admission.clock import Clock
    from qosweb.server.request.exchange import Exchange
    from qosweb.webqos.model.model import Model

IN_HEAD = ("header", "cookie", "method", "host")  # what a head says, whoever sends it and whenever


class HeadFacts:
    """What a request head says."""

    def __init__(self, message: RawRequestMessage, host: str) -> None:
        self._message = message
        self._host = host
        self._cookies: dict[str, str] | None = None

    def number(self, subject: str, argument: str) -> int | None:  # noqa: ARG002
        return None

    def linked(self, pages: int) -> bool:  # noqa: ARG002
        return False

    def text(self, subject: str, argument: str) -> str | None:
        match subject:
            case "header":
                values = self._message.headers.getall(argument, None)
                return None if values is None else ", ".join(values)
            case "cookie":
                if self._cookies is None:
                    self._cookies = _cookies(self._message.headers.getall("Cookie", []))
                return self._cookies.get(argument)
            case "method":
                return self._message.method
            case "host":
                return self._host
            case _:
                return None


class ExchangeFacts(HeadFacts):
    """All that is known of a request and its page."""

    def __init__(self, exchange: Exchange, labels: Classifier, path: str, now: float) -> None:
        super().__init__(exchange.message, exchange.host)
        self._exchange = exchange
        self._labels = labels
        self._path = path
        self._now = now

    def number(self, subject: str, argument: str) -> int | None:
        labels, resource = self._labels, self._exchange.resource
        if subject == "client_accessed":
            return labels.accesses.of_client_ms(int(argument), self._exchange.client, self._now)
        if subject in c.OF_CLUSTER:
            return labels.environment().number(subject, argument)
        if subject == "last_access":
            return labels.accesses.of_path_ms(self._path, self._now)
        if resource is None:
            return None
        if subject == "size":
            return resource.plain.size
        if subject == "last_modified":
            return max(0, int(labels.clock.wall(self._now) * 1000) - resource.plain.identity.mtime_ns // 1_000_000)
        return None

    def text(self, subject: str, argument: str) -> str | None:
        if subject == "client":
            return self._exchange.client.partition("%")[0].removeprefix("::ffff:")
        if subject == "owner":
            return None if self._exchange.resource is None else _owner(self._exchange.resource.plain.name)
        return super().text(subject, argument)

    def linked(self, pages: int) -> bool:
        return self._labels.is_linked(pages, self._path)


class Classifier:
    """A policy in force. Without one there is one class."""

    def __init__(
        self,
        clock: Clock,
        model: Model | None = None,
        index: str = "index.html",
        text: str = "",
        noted: Callable[[Iterable[int]], None] | None = None,
        environment: Callable[[], Environment] = Environment,
    ) -> None:
        self.clock = clock
        self.environment = environment  # what is the case in the cluster
        self._noted = noted  # who else wants to know which page sets were asked for
        self.model = model
        self.text = text  # the specification as it was written
        self.names = ["default"] if model is None else [one.name for one in model.classes]
        self.default = 0 if model is None else model.default
        self.policy = "" if model is None else digest(model)
        self.accesses = AccessHistory()
        # How many requests each shadow would have been about, by its number among all rules.
        self.shadow_rules = {} if model is None else {at: rule for at, rule in enumerate(model.rules) if rule.shadow}
        self.shadow_counts = dict.fromkeys(self.shadow_rules, 0)
        self._matcher = None if model is None else Matcher(model)
        leaves = [] if model is None else [leaf for atom in model.atoms for leaf in c.leaves(atom)]
        self._notes_paths = any(isinstance(leaf, c.Within) and leaf.subject == "last_access" for leaf in leaves)
        self._is_of_head = [] if model is None else [all(map(_is_of_head, c.leaves(atom))) for atom in model.atoms]
        self._link_sets = {} if model is None else _link_sets(model)
        # One of its own: it is asked by the thread that reads files.
        self._link_matcher = None if model is None or not self._link_sets else Matcher(model)
        self.link_map = LinkMap(self._linking, index, _own_hosts(model)) if model and self._link_sets else None

    def of_head(self, message: RawRequestMessage) -> int | None:
        """The class of a plain request, if its head alone decides and nothing has to be noted; else None."""
        if self._matcher is None:
            return 0
        host = parse_host(message.headers.get("Host", ""))
        if host is None or self._notes_paths:
            return None
        try:
            path = parse_target(message.path).path
        except BadTarget:
            return None
        if self._matcher.watched_sets(host, path) or (self.shadow_counts and self._matcher.shadows(host, path)):
            return None
        decision = self._matcher.decide(host, path)
        if not isinstance(decision, Branch):
            return decision
        facts = HeadFacts(message, host)
        while isinstance(decision, Branch):
            if not self._is_of_head[decision.atom]:
                return None
            decision = decision.yes if decision.test(facts) else decision.no
        return decision

    def of_exchange(self, exchange: Exchange, now: float) -> int:
        """The class of any request; one without an acceptable target is in ``default``."""
        if self._matcher is None:
            return self.default
        try:  # what was refused for its method was not looked at yet
            target = exchange.target or parse_target(exchange.message.path)
        except BadTarget:
            return self.default
        path = target.path
        return self._matcher.classify(exchange.host, path, ExchangeFacts(exchange, self, path, now))

    def note(self, exchange: Exchange, now: float) -> None:
        """A page that exists was asked for."""
        if self._matcher is None or exchange.target is None:
            return
        path = exchange.target.path
        for at in self._matcher.shadows(exchange.host, path) if self.shadow_counts else ():
            condition = self.shadow_rules[at].condition
            if condition is None or c.holds(condition, ExchangeFacts(exchange, self, path, now)):
                self.shadow_counts[at] += 1
        if self._notes_paths:
            self.accesses.note_path(path, now)
        if watched := self._matcher.watched_sets(exchange.host, path):
            self.accesses.note(watched, exchange.client, now)
            if self._noted is not None:
                self._noted(watched)

    def is_linked(self, pages: int, path: str) -> bool:
        if self.link_map is None:
            return False
        return self.link_map.has(self._link_sets[pages], self.link_map.canonical(path))

    def note_links(self, host: str, path: str, values: list[str]) -> None:
        """A page of the server behind this one has these Link fields."""
        if self.link_map is None or self._matcher is None:
            return
        numbers = frozenset(self._link_sets.values()) & frozenset(self._matcher.watched_sets(host, path))
        if numbers:
            self.link_map.note(numbers, path, values)

    def refresh_links(self, root: Path) -> None:
        """Blocks on the disk."""
        if self.link_map is not None:
            self.link_map.refresh(root)

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


def _link_sets(model: Model) -> dict[int, int]:
    return {number: one.of for number, one in enumerate(model.page_sets) if one.kind == "links"}


def _own_hosts(model: Model) -> frozenset[str]:
    """The hosts that a specification names: they are this site's."""
    named = {pattern.host for page_set in model.page_sets for pattern in page_set.patterns}
    return frozenset(host for host in {*named, model.settings.site} if host is not None and "*" not in host)


def _is_of_head(leaf: c.Leaf | c.Atom) -> bool:
    return isinstance(leaf, c.OneOf | c.Like | c.Has) and leaf.subject in IN_HEAD


def _owner(name: bytes) -> str | None:
    try:
        return pwd.getpwuid(os.stat(name).st_uid).pw_name
    except (OSError, KeyError):
        return None


def _cookies(values: list[str]) -> dict[str, str]:
    """The first of a name counts (RFC 6265 section 5.4 sends the most specific first)."""
    found: dict[str, str] = {}
    for value in values:
        for pair in value.split(";"):
            name, equals, text = pair.strip().partition("=")
            if equals:
                found.setdefault(name.strip(), text.strip().strip('"'))
    return found
