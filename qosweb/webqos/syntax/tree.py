"""The tree of a specification as it was written. Every node knows where it stands."""

from dataclasses import dataclass

from qosweb.webqos.syntax.places import Span


@dataclass(frozen=True, slots=True)
class Node:
    span: Span


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A word: a keyword, an attribute, a name given by ``let``."""

    text: str


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A value as written; what it means depends on what it is compared with. ``text`` of a quoted one is unquoted."""

    text: str
    quoted: bool = False


# Pages


@dataclass(frozen=True, slots=True)
class Pattern(Node):
    text: str  # without the brackets


@dataclass(frozen=True, slots=True)
class PageName(Node):
    name: str  # default, all, or given by let


@dataclass(frozen=True, slots=True)
class Links(Node):
    """The pages that ``pages`` link to."""

    pages: "Pages"


@dataclass(frozen=True, slots=True)
class Union(Node):
    members: tuple["Pages", ...]


Pages = Pattern | PageName | Links | Union


@dataclass(frozen=True, slots=True)
class Term(Node):
    """``pages.attribute``."""

    pages: Pages
    attribute: Name


# Right sides of constraints


@dataclass(frozen=True, slots=True)
class Amount(Node):
    """A value, perhaps ``* nodes`` or ``of capacity``."""

    value: Literal | Name
    scale: Name | None = None


@dataclass(frozen=True, slots=True)
class Relative(Node):
    factor: Literal | None
    term: Term


@dataclass(frozen=True, slots=True)
class Channel(Node):
    size: Literal
    time: Literal


Value = Amount | Relative | Channel


# Conditions


@dataclass(frozen=True, slots=True)
class Subject(Node):
    """What a condition looks at: ``time``, ``size``, ``header("Name")``."""

    name: str
    argument: Literal | None = None


@dataclass(frozen=True, slots=True)
class Compare(Node):
    subject: Subject
    op: Name
    value: Literal


@dataclass(frozen=True, slots=True)
class Range(Node):
    low: Literal
    high: Literal


@dataclass(frozen=True, slots=True)
class In(Node):
    subject: Subject
    items: tuple[Literal | Range, ...]


@dataclass(frozen=True, slots=True)
class Like(Node):
    subject: Subject
    glob: Literal


@dataclass(frozen=True, slots=True)
class Has(Node):
    """``header("Name")`` or ``cookie("name")`` alone: it was sent."""

    subject: Subject


@dataclass(frozen=True, slots=True)
class Accessed(Node):
    pages: Pages
    within: Literal
    by_client: bool


@dataclass(frozen=True, slots=True)
class Reference(Node):
    """A condition by the name that ``let`` gave it."""

    name: str


@dataclass(frozen=True, slots=True)
class Not(Node):
    item: "Condition"


@dataclass(frozen=True, slots=True)
class And(Node):
    items: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Or(Node):
    items: tuple["Condition", ...]


Condition = Compare | In | Like | Has | Accessed | Reference | Not | And | Or


# Statements


@dataclass(frozen=True, slots=True)
class Bound(Node):
    term: Term
    op: Name
    value: Value
    hard: Name | None = None


@dataclass(frozen=True, slots=True)
class Before(Node):
    """A chain: each of the members before the next."""

    members: tuple[Pages, ...]


@dataclass(frozen=True, slots=True)
class Set(Node):
    name: Name
    value: Literal | Channel


@dataclass(frozen=True, slots=True)
class Let(Node):
    name: Name
    value: Pages | Condition | Literal


@dataclass(frozen=True, slots=True)
class Rule(Node):
    constraint: Bound | Before
    condition: Condition | None = None
    shadow: Name | None = None
    alias: Name | None = None


Statement = Set | Let | Rule


@dataclass(frozen=True, slots=True)
class Comment(Node):
    text: str  # with its '#', without trailing blanks
    trailing: bool  # something stands before it on its line


@dataclass(frozen=True, slots=True)
class Tree:
    statements: tuple[Statement, ...]
    comments: tuple[Comment, ...] = ()
    unread: frozenset[str] = frozenset()  # names that statements with mistakes would have given
