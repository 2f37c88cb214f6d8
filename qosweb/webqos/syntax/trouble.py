"""From a failed parse to words that help: what was expected, what stands there, what would be right."""

import re
from typing import NoReturn

from qosweb.webqos.syntax.diagnostics import Diagnostic, error
from qosweb.webqos.syntax.places import Span

_FOUND = re.compile(r'"(?:[^"\\]|\\.)*"?|<[^<>\s]*>|[\w][\w.:/%-]*|=>|<=|>=|==|!=|\.\.|&&|\|\||.', re.DOTALL)
_EXPECTED = re.compile(r"(?:Expected|expected) (.*?)(?:, found .*)?$", re.DOTALL)
_UNITS = ("b", "kb", "mb", "gb", "ms", "s", "min", "h", "d", "%", "kb/s", "mb/s", "gb/s")
_SIGNS = {"&&": "and", "&": "and", "||": "or", "!": "not"}
SHOWN_MAX = 40


class Trouble(Exception):
    """A statement that is none. Carries its diagnostic."""

    def __init__(self, span: Span, message: str, hint: str) -> None:
        super().__init__(message)
        self.diagnostic: Diagnostic = error(span, message, hint)


def explain(message: str, part: str, at: int, base: int, statement: str, *, before_arrow: bool) -> NoReturn:
    """Raise the Trouble for a failure at ``at`` of ``part``, which stands at ``base`` of the text."""
    match = _EXPECTED.match(message)
    wanted = match[1] if match else "something else"
    while at < len(part) and part[at] in " \t":
        at += 1
    if at >= len(part):
        end = len(part.rstrip())
        where = "before '=>'" if before_arrow else "at the end"
        raise Trouble(Span(base + end, base + end + 1), f"expected {wanted} {where}", _hint(wanted, "", statement))
    found = _FOUND.match(part, at)
    token = found[0] if found else part[at]
    span = Span(base + at, base + at + len(token))
    if token[0] == '"' and (len(token) == 1 or token[-1] != '"'):
        raise Trouble(span, "the quoted text has no end", "a '\"' is missing")
    if token == "<" and wanted != "a comparison" and "'='" not in wanted:
        raise _bracket(part, at, base)
    shown = token if len(token) <= SHOWN_MAX else token[: SHOWN_MAX - 3] + "..."
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)
    raise Trouble(span, f"expected {wanted}, found '{shown}'", _hint(wanted, token, statement))


def _bracket(part: str, at: int, base: int) -> Trouble:
    rest = part[at:]
    close = rest.find(">")
    if close < 0:
        end = re.search(r"\s|$", rest)
        assert end is not None
        return Trouble(Span(base + at, base + at + max(1, end.start())), "the pattern has no end", "a '>' is missing")
    blank = re.search(r"[\s<\"#]", rest[1:close])
    if blank is not None:
        place = base + at + 1 + blank.start()
        return Trouble(
            Span(place, place + 1),
            f"a pattern cannot hold {'a blank' if blank[0].isspace() else repr(blank[0])}",
            "is a '>' missing before it?",
        )
    return Trouble(Span(base + at, base + at + 1), "expected a value, found '<'", "")


def _hint(wanted: str, token: str, statement: str) -> str:
    low = token.lower()
    if token == "==":
        return "equality is written with one '='"
    if token == "!=" and "'='" in wanted:
        return "a constraint bounds with '=', '<' or '>'"
    if token in _SIGNS:
        return f"write '{_SIGNS[token]}'"
    if token == "=>":
        return "a statement has one '=>', between its condition and its constraint"
    if low in ("and", "or", "not", "in", "before", "hard", "as", "within") and token != low:
        return f"write it in lower case: '{low}'"
    if wanted == "the end of the statement":
        if low in _UNITS:
            return f"write number and unit without a blank between them: '5{token}'"
        if token == ")":
            return "there is no '(' for it"
        if token == "in":
            return "write a condition before '=>': time in 22:00..06:00 => </shop>.server_resource > 20%"
        if low in ("and", "or"):
            return "a statement has one constraint; write two statements"
        if token == "|":
            return "put page sets in parentheses: (</a> | </b>).server_resource"
        return "one statement a line, or ';' between statements"
    if "'before'" in wanted and token == "|":
        return "put page sets in parentheses: (</a> | </b>).server_resource"
    if "'before'" in wanted and low in ("=", "<", ">"):
        return _no_attribute(statement)
    if "'before'" in wanted and low in ("and", "or", "in", "not", "like"):
        return "a condition is followed by '=>' and a constraint"
    if wanted.startswith("pages") and token.startswith("/"):
        return f"write a pattern in brackets: <{token}>"
    return ""


def _no_attribute(statement: str) -> str:
    word = statement.split("=")[0].strip()
    if word.isidentifier():
        return f"write 'let {word} = ...' to name something, 'set {word} = ...' for a setting"
    return "such as </shop>.server_resource"
