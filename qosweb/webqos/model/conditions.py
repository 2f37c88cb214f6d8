"""Conditions of the model, and their evaluation under given facts.

All ordered values (times, sizes, ages, counts) are tested against closed ranges of integers. This makes conditions both
cheap to evaluate and easy to analyse.
"""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Protocol

import msgspec

from qosweb.webqos import globs
from qosweb.webqos.patterns import without_port

UNBOUNDED = 1 << 62

# Subjects that describe the cluster. All other subjects distinguish requests.
OF_CLUSTER = frozenset({"time", "weekday", "date", "load", "nodes", "accessed"})

# Subjects that distinguish clients, rather than pages or methods.
OF_CLIENT = frozenset({"client", "client_accessed", "cookie", "header"})


class Facts(Protocol):
    """The values of subjects when a condition is evaluated; None if unknown."""

    def number(self, subject: str, argument: str) -> int | None: ...
    def text(self, subject: str, argument: str) -> str | None: ...
    def linked(self, pages: int) -> bool: ...


class Within(msgspec.Struct, frozen=True, tag="within"):
    """The number is in one of the ranges, both ends included."""

    subject: str
    argument: str
    ranges: tuple[tuple[int, int], ...]


class OneOf(msgspec.Struct, frozen=True, tag="one_of"):
    subject: str
    argument: str
    texts: tuple[str, ...]


class Like(msgspec.Struct, frozen=True, tag="like"):
    """The text matches a glob, ignoring case."""

    subject: str
    argument: str
    glob: str


class Has(msgspec.Struct, frozen=True, tag="has"):
    subject: str
    argument: str


class ClientIn(msgspec.Struct, frozen=True, tag="client_in"):
    networks: tuple[str, ...]


class Linked(msgspec.Struct, frozen=True, tag="linked"):
    """The page belongs to ``pages``, a page set of kind ``links``."""

    pages: int


class Atom(msgspec.Struct, frozen=True, tag="atom"):
    """The condition ``model.atoms[index]``, which depends on the request: for a class it holds or it does not."""

    index: int


class Not(msgspec.Struct, frozen=True, tag="not"):
    item: "Condition"


class And(msgspec.Struct, frozen=True, tag="and"):
    items: tuple["Condition", ...]


class Or(msgspec.Struct, frozen=True, tag="or"):
    items: tuple["Condition", ...]


Leaf = Within | OneOf | Like | Has | ClientIn | Linked
Condition = Within | OneOf | Like | Has | ClientIn | Linked | Atom | Not | And | Or


def leaves(condition: Condition) -> Iterator[Leaf | Atom]:
    """The tests and atoms that a condition consists of."""
    match condition:
        case And(items) | Or(items):
            for item in items:
                yield from leaves(item)
        case Not(item):
            yield from leaves(item)
        case _:
            yield condition


def is_of_request(condition: Condition) -> bool:
    """Whether the condition depends only on the request and its page."""
    return not any(
        isinstance(leaf, Atom) or (isinstance(leaf, Within) and leaf.subject in OF_CLUSTER)
        for leaf in leaves(condition)
    )


def is_of_client(condition: Condition, atoms: tuple[Condition, ...]) -> bool:
    """Whether the condition depends on the client."""
    for leaf in leaves(condition):
        if isinstance(leaf, Atom):
            if is_of_client(atoms[leaf.index], atoms):
                return True
        elif isinstance(leaf, ClientIn) or (not isinstance(leaf, Linked) and leaf.subject in OF_CLIENT):
            return True
    return False


def holds(condition: Condition, facts: Facts, atoms_held: frozenset[int] = frozenset()) -> bool:
    """Evaluate a condition. ``atoms_held`` are the atoms that hold."""
    match condition:
        case And(items):
            return all(holds(item, facts, atoms_held) for item in items)
        case Or(items):
            return any(holds(item, facts, atoms_held) for item in items)
        case Not(item):
            return not holds(item, facts, atoms_held)
        case Within(subject, argument, ranges):
            value = facts.number(subject, argument)
            return value is not None and any(low <= value <= high for low, high in ranges)
        case OneOf(subject, argument, texts):
            text = facts.text(subject, argument)
            return text is not None and (text in texts or (subject == "host" and without_port(text) in texts))
        case Like(subject, argument, glob):
            text = facts.text(subject, argument)
            if text is not None and subject == "host" and ":" not in glob:
                text = without_port(text)  # a glob without a port matches the host on every port
            return text is not None and globs.matches(glob.lower(), text.lower())
        case Has(subject, argument):
            return facts.text(subject, argument) is not None
        case ClientIn(networks):
            return client_in(facts.text("client", ""), networks)
        case Linked(pages):
            return facts.linked(pages)
        case Atom(index):
            return index in atoms_held


def residual(condition: Condition, held: frozenset[int]) -> Condition | bool:
    """Partial evaluation: the condition that remains when all atoms are decided."""
    match condition:
        case Atom(index):
            return index in held
        case Not(item):
            inner = residual(item, held)
            return not inner if isinstance(inner, bool) else Not(inner)
        case And(items) | Or(items):
            decides = isinstance(condition, Or)  # an item with this value decides the result
            left: list[Condition] = []
            for item in items:
                inner = residual(item, held)
                if inner is decides:
                    return decides
                if not isinstance(inner, bool):
                    left.append(inner)
            if not left:
                return not decides
            return left[0] if len(left) == 1 else type(condition)(tuple(left))
        case _:
            return condition


def client_in(client: str | None, networks: tuple[str, ...]) -> bool:
    if client is None:
        return False
    try:
        address = ip_address(client)
    except ValueError:
        return False
    return any(address in ip_network(network) for network in networks)
