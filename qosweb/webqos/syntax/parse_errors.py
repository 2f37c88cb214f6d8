"""Explains parse failures: what was expected, what was found, and a hint for the correction."""

import re
from typing import NoReturn

from qosweb.webqos.syntax.diagnostics import Diagnostic, did_you_mean, error
from qosweb.webqos.syntax.positions import Span
from qosweb.webqos.syntax.reserved_words import SUBJECTS, WITH_ARGUMENT

_FOUND = re.compile(
    r'"(?:[^"\\]|\\.)*"?|<[^<>\s#"]*>|/[\w./*%~-]*|-?\w[\w.:/%-]*|=>|->|<=|>=|==|=<|!=|\.\.|&&|\|\||.', re.DOTALL
)
_EXPECTED = re.compile(r"(?:Expected|expected) (.*?)(?:, found .*)?$", re.DOTALL)
_QUOTED_WORD = re.compile(r"'([a-z]+)'")
_UNITS = ("b", "kb", "mb", "gb", "tb", "ms", "s", "min", "h", "d", "%", "kb/s", "mb/s", "gb/s")
_SIGNS = {"&&": "and", "&": "and", "||": "or", "!": "not", "->": "=>", "=<": "<", "==": "="}
_WORDS = ("and", "or", "not", "in", "like", "before", "hard", "as", "within", "shadow", "let", "set")
_SUBJECTS = (*SUBJECTS, *WITH_ARGUMENT, "accessed")
SHOWN_MAX = 40


class ParseError(Exception):
    """A statement that cannot be parsed, with its diagnostic."""

    def __init__(self, span: Span, message: str, hint: str) -> None:
        super().__init__(message)
        self.diagnostic: Diagnostic = error(span, message, hint)


def explain(message: str, part: str, at: int, base: int, *, before_arrow: bool) -> NoReturn:
    """Raise the ParseError for a failure at ``at`` of ``part``, which starts at offset ``base`` of the text."""
    match = _EXPECTED.match(message)
    expected = match[1] if match else "something else"
    while at < len(part) and part[at] in " \t":
        at += 1
    earlier = re.findall(r"[\w-]+", part[:at])
    previous = earlier[-1] if earlier else ""
    if at >= len(part):
        end = len(part.rstrip())
        where = "before '=>'" if before_arrow else "at the end"
        raise ParseError(Span(base + end, base + end + 1), f"expected {expected} {where}", "")
    found = _FOUND.match(part, at)
    token = found[0] if found else part[at]
    span = Span(base + at, base + at + len(token))
    if token == "<" and expected.startswith(("pages", "a value", "'nodes'")):
        raise _bracket(part, at, base)
    shown = token if len(token) <= SHOWN_MAX else token[: SHOWN_MAX - 3] + "..."
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)
    raise ParseError(span, f"expected {expected}, found '{shown}'", _hint(expected, token, previous, part[at:]))


def _bracket(part: str, at: int, base: int) -> ParseError:
    """The error for a '<' that does not start a pattern, where a pattern is possible."""
    rest = part[at:]
    close = rest.find(">")
    if close < 0:
        end = re.search(r"\s|$", rest)
        assert end is not None
        return ParseError(
            Span(base + at, base + at + max(1, end.start())), "the pattern has no end", "a '>' is missing"
        )
    blank = re.search(r"[\s<\"#]", rest[1:close])
    if blank is None:
        return ParseError(Span(base + at, base + at + 1), "expected a value, found '<'", "")
    place = base + at + 1 + blank.start()
    what, hint = ("a blank", "is a '>' missing before it?") if blank[0].isspace() else (f"'{blank[0]}'", "")
    return ParseError(Span(place, place + 1), f"a pattern cannot hold {what}", hint)


def _hint(expected: str, token: str, previous: str, rest: str) -> str:
    """A hint for the correction; empty if there is no good guess."""
    low = token.lower()
    if token.isspace():
        return "this is a special blank character; type an ordinary blank"
    if token == "&" and expected == "the end of the statement":
        return "page sets are united with '|'"
    if expected == "a condition" and token.startswith("<"):
        return "the condition comes first, then '=>' and the constraint"
    if expected.startswith("pages") and token in (*_SUBJECTS, "not"):
        return "a condition is followed by '=>' and a constraint"
    if token in _SIGNS:
        return f"write '{_SIGNS[token]}'"
    if token == "=>":
        return "a statement has one '=>', between its condition and its constraint"
    for word in (token, previous):
        if word.lower() in _WORDS and word != word.lower():
            return f"write it in lower case: '{word.lower()}'"
    if previous.lower() in ("if", "when") and ("'=>'" in expected or "'before'" in expected):
        return "a condition needs no word before it, and is followed by '=>' and a constraint"
    if low in _UNITS and previous[:1].isdigit():
        return "write number and unit without a blank between them"
    if token == ")":
        return "" if expected.startswith(("pages", "a value", "a condition", "a name")) else "there is no '(' for it"
    if "or '=>'" in expected or "or the end" in expected:
        return _hint_in_condition(token, previous)
    if expected == "the end of the statement":
        return _hint_at_end(token, low)
    if "'before'" in expected:
        return _hint_after_pages(token, low, previous, rest)
    if expected.startswith("pages") and token.startswith("/"):
        path, dot, attribute = token.rpartition(".")
        return (
            f"write a pattern in brackets: <{path}>.{attribute}" if dot else f"write a pattern in brackets: <{token}>"
        )
    if expected.startswith("a value") and token.startswith("-"):
        return "there are no negative values"
    if token.startswith('"'):
        return "write it without quotes"
    return did_you_mean(token, _QUOTED_WORD.findall(expected))


def _hint_in_condition(token: str, previous: str) -> str:
    if token[0] in "<>=!" or token == "in":
        close = did_you_mean(previous, _SUBJECTS)
        return close or f"conditions cannot test '{previous}'; they test {', '.join(_SUBJECTS)}"
    if token == "..":
        return "a range follows 'in': time in 22:00..06:00"
    return ""


def _hint_at_end(token: str, low: str) -> str:
    if token == ",":
        return "one statement per line; decimals are written with a point"
    if low in ("and", "or"):
        return "a statement has one constraint; write two statements"
    if token == "|":
        return "put page sets in parentheses: (</a> | </b>).server_resource"
    return did_you_mean(token, ("hard", "as")) or "one statement per line, or ';' between statements"


def _hint_after_pages(token: str, low: str, previous: str, rest: str) -> str:
    if token == "|":
        return "put page sets in parentheses: (</a> | </b>).server_resource"
    if token == ",":
        return "page sets are united with '|': (</a> | </b>).server_resource"
    if token == "(":
        return did_you_mean(previous, ("links",)) or "a condition is followed by '=>' and a constraint"
    if token == "=" and previous:
        return f"write 'let {previous} = ...' to define a name, 'set {previous} = ...' for a setting"
    if low in ("and", "or", "in", "not", "like"):
        return "a condition is followed by '=>' and a constraint"
    if token in (":", ">") or token.startswith("://"):
        return "write a pattern in brackets: </shop>.server_resource"
    if re.match(r"[\w-]+\s*[<>=]\s", rest):
        return "is a '.' missing?"
    return did_you_mean(token, ("before",))
