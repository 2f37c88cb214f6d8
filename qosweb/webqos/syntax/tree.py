"""Syntax tree of a specification. Every node has the span of its source text."""

from dataclasses import dataclass

from qosweb.webqos.syntax.positions import Span


@dataclass(frozen=True, slots=True)
class TreeNode:
    span: Span


@dataclass(frozen=True, slots=True)
class Name(TreeNode):
    """A word: a keyword, an attribute, a name defined by ``let``."""

    text: str


@dataclass(frozen=True, slots=True)
class Literal(TreeNode):
    """A value as written, without quotes. Its type depends on the attribute or subject."""

    text: str
    quoted: bool = False


# Pages


@dataclass(frozen=True, slots=True)
class Pattern(TreeNode):
    text: str  # without the brackets


@dataclass(frozen=True, slots=True)
class PageName(TreeNode):
    name: str  # default, all, or defined by let


@dataclass(frozen=True, slots=True)
class LinkedPages(TreeNode):
    """The pages that ``pages`` link to."""

    pages: "Pages"


@dataclass(frozen=True, slots=True)
class Union(TreeNode):
    members: tuple["Pages", ...]


Pages = Pattern | PageName | LinkedPages | Union


@dataclass(frozen=True, slots=True)
class Term(TreeNode):
    """``pages.attribute``."""

    pages: Pages
    attribute: Name


# Right sides of constraints


@dataclass(frozen=True, slots=True)
class Amount(TreeNode):
    """A value, optionally with ``* nodes`` or ``of capacity``."""

    value: Literal | Name
    scale: Name | None = None


@dataclass(frozen=True, slots=True)
class Relative(TreeNode):
    factor: Literal | None
    term: Term


@dataclass(frozen=True, slots=True)
class Channel(TreeNode):
    size: Literal
    time: Literal


@dataclass(frozen=True, slots=True)
class ResponseHeader(TreeNode):
    """``response_header("X-Cost")``: a number that the server behind gives."""

    name: Literal


Value = Amount | Relative | Channel | ResponseHeader


# Conditions


@dataclass(frozen=True, slots=True)
class Subject(TreeNode):
    """The left side of a condition: ``time``, ``size``, ``header("Name")``."""

    name: str
    argument: Literal | None = None


@dataclass(frozen=True, slots=True)
class Compare(TreeNode):
    subject: Subject
    op: Name
    value: Literal


@dataclass(frozen=True, slots=True)
class Range(TreeNode):
    low: Literal
    high: Literal


@dataclass(frozen=True, slots=True)
class In(TreeNode):
    subject: Subject
    items: tuple[Literal | Range, ...]


@dataclass(frozen=True, slots=True)
class Like(TreeNode):
    subject: Subject
    glob: Literal


@dataclass(frozen=True, slots=True)
class Has(TreeNode):
    """``header("Name")`` or ``cookie("name")`` alone: the request has it."""

    subject: Subject


@dataclass(frozen=True, slots=True)
class Accessed(TreeNode):
    pages: Pages
    within: Literal
    by_client: bool


@dataclass(frozen=True, slots=True)
class Reference(TreeNode):
    """A name that ``let`` defines as a condition."""

    name: str


@dataclass(frozen=True, slots=True)
class Not(TreeNode):
    item: "Condition"


@dataclass(frozen=True, slots=True)
class And(TreeNode):
    items: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Or(TreeNode):
    items: tuple["Condition", ...]


Condition = Compare | In | Like | Has | Accessed | Reference | Not | And | Or


# Statements


@dataclass(frozen=True, slots=True)
class Bound(TreeNode):
    term: Term
    op: Name
    value: Value
    hard: Name | None = None


@dataclass(frozen=True, slots=True)
class Before(TreeNode):
    """A chain of pages in descending priority."""

    members: tuple[Pages, ...]


@dataclass(frozen=True, slots=True)
class Set(TreeNode):
    name: Name
    value: Literal | Channel


@dataclass(frozen=True, slots=True)
class Let(TreeNode):
    name: Name
    value: Pages | Condition | Literal


@dataclass(frozen=True, slots=True)
class Rule(TreeNode):
    constraint: Bound | Before
    condition: Condition | None = None
    shadow: Name | None = None
    alias: Name | None = None


Statement = Set | Let | Rule


@dataclass(frozen=True, slots=True)
class Comment(TreeNode):
    text: str  # with its '#', without trailing blanks
    trailing: bool  # it follows a statement on the same line


@dataclass(frozen=True, slots=True)
class Tree:
    """A parsed specification."""

    statements: tuple[Statement, ...]
    comments: tuple[Comment, ...] = ()
    unread: frozenset[str] = frozenset()  # names that statements with errors would have defined
