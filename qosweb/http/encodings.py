"""Content negotiation: chooses the content coding of a response from Accept-Encoding.

From: RFC 9110 section 12.5.3 (Accept-Encoding), 12.4.2 (weights), 8.4.1 (codings and their aliases).
Departs: a client that refuses even identity still gets identity, never 406: it may be able to use it. If a coding is
listed twice, its first weight counts.
"""

import math
import re
from collections.abc import Sequence

# token [ OWS ";" OWS "q=" qvalue ]; possessive quantifiers prevent backtracking.
_MEMBER = re.compile(
    r"[ \t]*+"
    r"([!#$%&'*+.^_`|~0-9A-Za-z-]++)[ \t]*+"
    r"(?:;[ \t]*+[qQ]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*+)?"
)
_ALIASES = {"x-gzip": "gzip", "x-compress": "compress"}
_WEIGHT_MAX = 1000  # thousandths: a qvalue has at most three decimals


def choose_encoding(accept_encoding: str | None, available: Sequence[tuple[str, int]]) -> str | None:
    """The best of the available codings (each with the size of its body), or None for identity.

    The highest weight wins; among equal weights the smallest body. Identity has its own weight, or that of `*`, and
    loses against any coding of the same weight. If neither identity nor `*` is listed, any listed coding wins against
    identity. Weight 0 means never. Without the field the response is not encoded.
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
    """The weight in thousandths of each coding, in lower case. Malformed members are ignored."""
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
