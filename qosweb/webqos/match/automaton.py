"""Pattern automaton: finds all patterns that cover a page. A trie of patterns, determinised lazily.

A state is a set of trie nodes. Its transitions are cached by segment, so a path costs one dictionary lookup per
segment, independent of the number of patterns. All segments that occur in no pattern lead to the same state and need no
cache, unless patterns have a star within a segment. Then an uncached transition looks up the start or end of the
segment, never all patterns. The caches are bounded, because clients choose the segments.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from qosweb.webqos.globs import FILLER, Glob
from qosweb.webqos.overlaps import Overlaps, TooManyOverlaps
from qosweb.webqos.patterns import PagePattern, without_port

REMEMBERED_MAX = 2_048  # cached transitions per state, besides the literal segments of patterns
HOSTS_MAX = 1_024
STEPS_MAX = 1_000_000  # of the search for overlaps


class TooManyWays(Exception):
    """The patterns overlap in more ways than the limit."""


_NOTHING: frozenset[int] = frozenset()


class _Node:
    """A trie node. ``deep`` is the child for '**', which has a transition to itself for every segment."""

    __slots__ = ("accepts", "by_head", "by_tail", "deep", "globs", "is_deep", "literals", "others", "stems")

    def __init__(self, *, is_deep: bool = False) -> None:
        self.is_deep = is_deep
        self.literals: dict[str, _Node] = {}
        self.stems: dict[str, _Node] = {}  # a page with any extension
        self.globs: dict[str, tuple[Glob, _Node]] = {}
        # The same globs, indexed by their literal start or end, per length of it.
        self.by_head: dict[int, dict[str, list[tuple[Glob, _Node]]]] = {}
        self.by_tail: dict[int, dict[str, list[tuple[Glob, _Node]]]] = {}
        self.others: list[tuple[Glob, _Node]] = []
        self.deep: _Node | None = None
        self.accepts = _NOTHING

    def child(self, segment: str) -> "_Node":
        if segment == "**":
            if self.is_deep:
                return self
            if self.deep is None:
                self.deep = _Node(is_deep=True)
            return self.deep
        if "*" not in segment:
            return self.literals.setdefault(segment, _Node())
        if segment not in self.globs:
            self.globs[segment] = (Glob.parse(segment), _Node())
            self._index(self.globs[segment])
        return self.globs[segment][1]

    def stem(self, segment: str) -> "_Node":
        return self.stems.setdefault(segment, _Node())

    def _index(self, entry: tuple[Glob, "_Node"]) -> None:
        head, _, tail = entry[0]
        if len(tail) > len(head):
            self.by_tail.setdefault(len(tail), {}).setdefault(tail, []).append(entry)
        elif head:
            self.by_head.setdefault(len(head), {}).setdefault(head, []).append(entry)
        else:
            self.others.append(entry)

    def after(self, segment: str) -> Iterator["_Node"]:
        if self.is_deep:
            yield self
        if self.literals and (node := self.literals.get(segment)) is not None:
            yield node
        if self.stems and "." in segment and (node := self.stems.get(segment.partition(".")[0])) is not None:
            yield node
        if not self.globs:
            return
        for length, by_head in self.by_head.items():
            for glob, node in by_head.get(segment[:length], ()):
                if glob.matches(segment):
                    yield node
        for length, by_tail in self.by_tail.items():
            for glob, node in by_tail.get(segment[-length:], ()):
                if glob.matches(segment):
                    yield node
        for glob, node in self.others:
            if glob.matches(segment):
                yield node


class AutomatonState:
    """A set of trie nodes. ``accepts`` are the patterns that cover a page whose segments lead here.

    ``meaning`` is a cache for the user of the automaton: a value computed from ``accepts``.
    """

    __slots__ = ("accepts", "has_globs", "is_last", "meaning", "names_nothing", "next", "nodes", "otherwise")

    def __init__(self, nodes: tuple[_Node, ...]) -> None:
        self.nodes = nodes
        self.accepts = frozenset(number for node in nodes for number in node.accepts)
        self.next: dict[str, AutomatonState] = {}
        self.otherwise: AutomatonState | None = None  # after a segment that occurs in no pattern
        self.has_globs = any(node.globs for node in nodes)
        # All segments lead to the same state, or even back to this one.
        self.names_nothing = not self.has_globs and not any(node.literals or node.stems for node in nodes)
        self.is_last = self.names_nothing and all(node.is_deep for node in nodes)
        self.meaning: Any = None


class PatternAutomaton:
    """Finds the numbers of the patterns that cover a page."""

    def __init__(self, patterns: Iterable[PagePattern]) -> None:
        self._any = _Node()
        self._hosts: dict[str, _Node] = {}
        self._host_globs: dict[str, tuple[Glob, _Node]] = {}
        self._states: dict[tuple[int, ...], AutomatonState] = {}
        self._starts: dict[str, AutomatonState] = {}
        for number, pattern in enumerate(patterns):
            _insert(self._root(pattern.host), pattern, number)

    def cover(self, host: str, segments: list[str]) -> AutomatonState:
        """The state after ``segments`` on ``host`` (in lower case)."""
        state = self._starts.get(host)
        if state is None:
            state = self._start(host)
        for segment in segments:
            following = state.next.get(segment)
            state = self._step(state, segment) if following is None else following
            if state.is_last:
                break
        return state

    def reachable(self, states_max: int) -> set[frozenset[int]]:
        """Every set of patterns that covers some page. Raises TooManyWays."""
        try:
            return self._reachable(states_max)
        except TooManyOverlaps:
            raise TooManyWays from None

    def _reachable(self, states_max: int) -> set[frozenset[int]]:
        waiting = [self._start(host) for host in self._host_witnesses(states_max)]
        seen = {id(state) for state in waiting}
        found: set[frozenset[int]] = set()
        overlaps: dict[tuple[str, ...], Overlaps] = {}
        steps = 0
        while waiting:
            state = waiting.pop()
            if state.is_last:
                found.add(state.accepts)
                continue
            for segment in _witnesses(state, states_max, overlaps):
                steps += 1
                if steps > STEPS_MAX:
                    raise TooManyWays
                following = self._step(state, segment)
                if id(following) not in seen:
                    if len(seen) >= states_max:
                        raise TooManyWays
                    seen.add(id(following))
                    found.add(following.accepts)
                    waiting.append(following)
        return found

    def _root(self, host: str | None) -> _Node:
        if host is None:
            return self._any
        if "*" in host:
            return self._host_globs.setdefault(host, (Glob.parse(host), _Node()))[1]
        return self._hosts.setdefault(host, _Node())

    def _start(self, host: str) -> AutomatonState:
        roots = [self._any]
        name = without_port(host)
        roots += [self._hosts[known] for known in {host, name} if known in self._hosts]
        roots += [
            root for text, (glob, root) in self._host_globs.items() if glob.matches(host if ":" in text else name)
        ]
        state = self._state(roots)
        if len(self._starts) >= HOSTS_MAX:
            self._starts.clear()
        self._starts[host] = state
        return state

    def _step(self, state: AutomatonState, segment: str) -> AutomatonState:
        """A transition that is not cached."""
        is_named = any(segment in node.literals for node in state.nodes)
        if not is_named and not state.has_globs:
            stem = segment.partition(".")[0]
            if stem == segment or not any(stem in node.stems for node in state.nodes):
                if state.otherwise is None:
                    state.otherwise = self._state([node for node in state.nodes if node.is_deep])
                return state.otherwise
        following = self._state([after for node in state.nodes for after in node.after(segment)])
        if is_named or (state.has_globs and len(state.next) < REMEMBERED_MAX):
            state.next[segment] = following
        return following

    def _state(self, nodes: list[_Node]) -> AutomatonState:
        if len(nodes) == 1 and nodes[0].deep is None:
            key: tuple[int, ...] = (id(nodes[0]),)
            closed = nodes
        else:
            by_id = {id(node): node for node in nodes}
            for node in nodes:
                if node.deep is not None:
                    by_id[id(node.deep)] = node.deep
            key = tuple(sorted(by_id))
            closed = [by_id[number] for number in key]
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = AutomatonState(tuple(closed))
        return state

    def _host_witnesses(self, most: int) -> Iterator[str]:
        """An example host for every combination of host patterns."""
        yield from self._hosts
        by_port: dict[str, list[str]] = {"": []}  # globs without their ports
        for glob in self._host_globs:
            name, _, port = glob.partition(":")
            by_port.setdefault(port, []).append(name)
        everywhere = by_port[""]
        for port, globs in by_port.items():
            end = f":{port}" if port else ""
            for name in Overlaps({*everywhere, *globs}).texts(most):
                yield name + end
            if port:
                yield from (host + end for host in self._hosts if without_port(host) == host)


def _insert(root: _Node, pattern: PagePattern, number: int) -> None:
    node = parent = root
    for segment in pattern.segments:
        parent = node
        node = node.child(segment)
    if not pattern.is_plain:
        node.accepts |= {number}
        return
    deep = node.child("**")
    deep.accepts |= {number}
    if pattern.segments and "." not in pattern.segments[-1]:
        stem = parent.stem(pattern.segments[-1])
        stem.accepts |= {number}


def _witnesses(state: AutomatonState, most: int, overlaps: dict[tuple[str, ...], Overlaps]) -> Iterator[str]:
    """An example segment for every transition from ``state``."""
    if state.names_nothing:
        yield FILLER
        return
    globs = tuple(sorted({glob for node in state.nodes for glob in node.globs}))
    if globs not in overlaps:
        overlaps[globs] = Overlaps(globs)
    yield from overlaps[globs].texts(most)
    yield from {literal for node in state.nodes for literal in node.literals}
    for stem in {stem for node in state.nodes for stem in node.stems}:
        yield from overlaps[globs].texts(most, f"{stem}.")
