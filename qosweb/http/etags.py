"""Entity tags: lists of them, and the two ways to compare.

From: RFC 9110 section 8.8.3 (syntax), 8.8.3.2 (comparison), 5.6.1 (lists).
Departs: a list with anything malformed in it counts as empty. Half of a list that we misread is no ground
for telling a client that its copy is current.
"""

import re

# Possessive quantifiers: nothing here can be matched in two ways, so nothing is tried twice.
_MEMBER = re.compile(r"""[ \t,]*+((?:W/)?"[\x21\x23-\x7e\x80-\U0010ffff]*+")[ \t]*+(?=,|\Z)""")
_REMAINDER = re.compile(r"[ \t,]*+")


def parse_etags(value: str) -> list[str]:
    """The members of a list of entity tags, quotes and all; [] if the list is empty or malformed.

    A comma may be part of a tag. Empty members are skipped.
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
