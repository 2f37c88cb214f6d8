"""Entity tags: parses lists of them, and implements strong and weak comparison.

From: RFC 9110 section 8.8.3 (syntax), 8.8.3.2 (comparison), 5.6.1 (lists).
Departs: a list with a malformed member counts as empty. A partly understood list does not justify a 304.
"""

import re

# The expression is unambiguous; possessive quantifiers prevent backtracking.
_MEMBER = re.compile(r"""[ \t,]*+((?:W/)?"[\x21\x23-\x7e\x80-\U0010ffff]*+")[ \t]*+(?=,|\Z)""")
_REMAINDER = re.compile(r"[ \t,]*+")


def parse_etags(value: str) -> list[str]:
    """Parse a list of entity tags, which keep their quotes; [] if the list is empty or malformed.

    A tag may contain commas. Empty members are skipped.
    """
    tags: list[str] = []
    at = 0
    while member := _MEMBER.match(value, at):
        tags.append(member[1])
        at = member.end()
    return tags if _REMAINDER.fullmatch(value, at) else []


def same_strongly(one: str, other: str) -> bool:
    """Strong comparison: equal, and neither is weak."""
    return one == other and not one.startswith("W/")


def same_weakly(one: str, other: str) -> bool:
    """Weak comparison: equal apart from weakness."""
    return one.removeprefix("W/") == other.removeprefix("W/")
