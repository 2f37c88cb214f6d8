"""Which content coding to send.

From: RFC 9110 section 12.5.3 (Accept-Encoding), 12.4.2 (weights), 8.4.1 (codings and their aliases).
Departs: a client that refuses even identity gets identity all the same, never 406: it may be able to use it.
A coding named twice has the weight of its first mention.
"""

import math
import re
from collections.abc import Sequence

# token [ OWS ";" OWS "q=" qvalue ]; possessive, so that no member is read twice.
_MEMBER = re.compile(
    r"[ \t]*+"
    r"([!#$%&'*+.^_`|~0-9A-Za-z-]++)[ \t]*+"
    r"(?:;[ \t]*+[qQ]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*+)?"
)
_ALIASES = {"x-gzip": "gzip", "x-compress": "compress"}
_WEIGHT_MAX = 1000  # thousandths: a qvalue has at most three decimals


def choose_encoding(accept_encoding: str | None, available: Sequence[tuple[str, int]]) -> str | None:
    """The best of the available codings (each with the size of its body), or None for identity.

    The highest weight wins, and among equals the smallest body. Identity competes with its own weight (that
    of `*` if it is not named) and gives way to any coding of the same weight; if neither is named, any coding that
    the client names goes before it. Weight 0 means never. Without the field the client has no wish for a coding.
    """
    if accept_encoding is None or not available:
        return None
    weights = _parse_weights(accept_encoding)
    weight_of_others = weights.get("*", 0)
    weight_of_identity = weights.get("identity", weights.get("*", 0))

    best: str | None = None
    best_weight = max(weight_of_identity, 1)  # a coding of weight 0 must not win, even if identity is refused
    best_size = math.inf
    for coding, size in available:
        weight = weights.get(coding, weight_of_others)
        if weight > best_weight or (weight == best_weight and size < best_size):
            best, best_weight, best_size = coding, weight, size
    return best


def _parse_weights(accept_encoding: str) -> dict[str, int]:
    """The weights in thousandths by coding in lower case; malformed members are left out."""
    weights: dict[str, int] = {}
    for member in accept_encoding.split(","):
        found = _MEMBER.fullmatch(member)
        if found is None:
            continue
        coding = found[1].lower()
        weights.setdefault(_ALIASES.get(coding, coding), _weight(found[2]))
    return weights


def _weight(qvalue: str | None) -> int:
    if qvalue is None or qvalue[0] == "1":
        return _WEIGHT_MAX
    return int(qvalue[2:].ljust(3, "0"))
