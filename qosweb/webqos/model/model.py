"""The model: settings, page sets, classes, constraints, priorities. It travels between nodes as MessagePack."""

import hashlib
from typing import Literal

import msgspec

from qosweb.webqos.model.conditions import Condition
from qosweb.webqos.patterns import PagePattern

DEFAULT = "default"

# Which models there are: raised whenever one of this version may mean nothing to the version before. A version reads
# those of its own language and of all before it.
LANGUAGE = 1


class SpecSettings(msgspec.Struct, frozen=True):
    """``offsets`` are those of the time zone: (from when on, seconds east of UTC).

    ``redirect``: how a request gets to another node that has room for it: client, forward or never.
    """

    site: str | None = None
    lifetime_ms: int | None = None
    channel_bytes: int | None = None
    channel_ms: int | None = None
    timezone: str = "UTC"
    offsets: tuple[tuple[int, int], ...] = ()
    redirect: str = "client"


class PageSet(msgspec.Struct, frozen=True):
    """``links`` are the pages that the set ``of`` links to; ``default`` is what no pattern of a constraint covers."""

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
    word: str  # always, equal, rest, serve, deny


class Relative(msgspec.Struct, frozen=True, tag="relative"):
    """``numerator / denominator`` times the same attribute of other pages."""

    pages: int
    numerator: int
    denominator: int


Value = Share | Requests | Bytes | Duration | ChannelSize | Word | Relative


class Constraint(msgspec.Struct, frozen=True):
    pages: int
    attribute: str
    op: Literal["<", ">", "="]
    value: Value
    text: str  # the statement in canonical form
    condition: Condition | None = None
    hard: bool = False
    shadow: bool = False


class Priority(msgspec.Struct, frozen=True):
    """Each page set before the next."""

    chain: tuple[int, ...]
    text: str
    condition: Condition | None = None
    shadow: bool = False


Rule = Constraint | Priority


class Way(msgspec.Struct, frozen=True):
    """Atoms that hold, and that do not."""

    held: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()


class QosClass(msgspec.Struct, frozen=True):
    """Requests that all rules treat alike: the page sets that cover them, and the ways in which atoms may come out."""

    name: str
    pages: tuple[int, ...]
    ways: tuple[Way, ...] = (Way(),)

    @property
    def held(self) -> tuple[int, ...]:
        """Of one of the ways; rules cannot tell it from the others."""
        return self.ways[0].held


class Model(msgspec.Struct, frozen=True):
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
        """The class of what no rule speaks of: no pages, and as few conditions as may be (some always hold)."""
        return min(
            (at for at, one in enumerate(self.classes) if not one.pages),
            key=lambda at: min(len(way.held) for way in self.classes[at].ways),
        )


def encode(model: Model) -> bytes:
    return msgspec.msgpack.encode(model)


def decode(data: bytes) -> Model:
    """Raises msgspec.ValidationError or msgspec.DecodeError for what is no model."""
    return msgspec.msgpack.decode(data, type=Model)


def digest(model: Model) -> str:
    """A short name of the policy, the same at every node that has it."""
    return hashlib.blake2b(encode(model), digest_size=8).hexdigest()
