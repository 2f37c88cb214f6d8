"""The data model of a compiled specification, exchanged between nodes as MessagePack."""

import hashlib
from typing import Literal

import msgspec

from qosweb.webqos.model.conditions import Condition
from qosweb.webqos.patterns import PagePattern

DEFAULT = "default"

# Version of the model format. Increase it when a previous release could not understand a model of this release. A
# release reads models of its own version and all earlier ones.
LANGUAGE = 2  # 2: the attribute cost


class SpecSettings(msgspec.Struct, frozen=True):
    """Global settings. ``offsets`` are the UTC offsets of the time zone: (start in Unix time, seconds east of UTC).

    ``redirect``: how a request gets to another node with free capacity: client, forward or never.
    """

    site: str | None = None
    lifetime_ms: int | None = None
    channel_bytes: int | None = None
    channel_ms: int | None = None
    timezone: str = "UTC"
    offsets: tuple[tuple[int, int], ...] = ()
    redirect: str = "client"


class PageSet(msgspec.Struct, frozen=True):
    """A set of pages. Kind ``links``: pages that the set ``of`` links to; ``default``: pages that no rule covers."""

    name: str
    kind: Literal["pages", "default", "all", "links"]
    patterns: tuple[PagePattern, ...] = ()
    of: int = -1


class Share(msgspec.Struct, frozen=True, tag="share"):
    ppm: int  # of the cluster's capacity


class Requests(msgspec.Struct, frozen=True, tag="requests"):
    urps: int  # millionths of a request per second
    per_node: bool = False


class Bytes(msgspec.Struct, frozen=True, tag="bytes"):
    bps: int
    per_node: bool = False


class Duration(msgspec.Struct, frozen=True, tag="duration"):
    ms: int


class ChannelSize(msgspec.Struct, frozen=True, tag="channel"):
    size: int
    ms: int


class Word(msgspec.Struct, frozen=True, tag="word"):
    word: str  # always, equal, rest, serve, deny, time, bytes, requests


class Relative(msgspec.Struct, frozen=True, tag="relative"):
    """``numerator / denominator`` times the same attribute of other pages."""

    pages: int
    numerator: int
    denominator: int


class HeaderNumber(msgspec.Struct, frozen=True, tag="response_header"):
    name: str  # of a response header, in lower case


Value = Share | Requests | Bytes | Duration | ChannelSize | Word | Relative | HeaderNumber


class Constraint(msgspec.Struct, frozen=True):
    """A bound on an attribute of a page set. ``hard`` upper bounds hold even if capacity is free."""

    pages: int
    attribute: str
    op: Literal["<", ">", "="]
    value: Value
    text: str  # the statement in canonical form
    condition: Condition | None = None
    hard: bool = False
    shadow: bool = False


class Priority(msgspec.Struct, frozen=True):
    """A chain of page sets in descending priority."""

    chain: tuple[int, ...]
    text: str
    condition: Condition | None = None
    shadow: bool = False


Rule = Constraint | Priority


class AtomCombination(msgspec.Struct, frozen=True):
    """One combination of atoms that hold and atoms that do not."""

    held: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()


class QosClass(msgspec.Struct, frozen=True):
    """Requests that all rules treat alike: the page sets that cover them, and the possible outcomes of the atoms."""

    name: str
    pages: tuple[int, ...]
    ways: tuple[AtomCombination, ...] = (AtomCombination(),)

    @property
    def held(self) -> tuple[int, ...]:
        """The atoms that hold in the first way; rules do not distinguish the ways of one class."""
        return self.ways[0].held


class Model(msgspec.Struct, frozen=True):
    """A compiled specification. Numbers of page sets, atoms, constraints and classes are indices into the tuples."""

    settings: SpecSettings
    page_sets: tuple[PageSet, ...]
    atoms: tuple[Condition, ...]
    constraints: tuple[Constraint, ...]
    priorities: tuple[Priority, ...]
    classes: tuple[QosClass, ...]

    @property
    def rules(self) -> list[Rule]:
        return [*self.constraints, *self.priorities]

    @property
    def default(self) -> int:
        """The class of requests that no rule covers: no page sets, and as few conditions that hold as possible."""
        return min(
            (at for at, one in enumerate(self.classes) if not one.pages),
            key=lambda at: min(len(way.held) for way in self.classes[at].ways),
        )


def encode(model: Model) -> bytes:
    return msgspec.msgpack.encode(model)


def decode(data: bytes) -> Model:
    """Decode a model. Raises msgspec.ValidationError or msgspec.DecodeError for invalid data."""
    return msgspec.msgpack.decode(data, type=Model)


def digest(model: Model) -> str:
    """A short hash that names the policy; the same on every node."""
    return hashlib.blake2b(encode(model), digest_size=8).hexdigest()
