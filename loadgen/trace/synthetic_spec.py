"""Specification of a synthetic access log: the shares and the lifetime of the simulated cluster, in WebQoS. Pure."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from loadgen.trace.request import split_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from loadgen.trace.page_mix import MixPart

NO_CLASS = "default"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PATH = re.compile(r"/[A-Za-z0-9._~%/-]*")


class Unnameable(Exception):
    """A class of the mix that no rule can name."""


def specification(mix: Iterable[MixPart], shares: Mapping[str, float], lifetime_s: float) -> str:
    """The policy that the simulated cluster keeps. Raises Unnameable."""
    pages: dict[str, list[str]] = {}
    for part in mix:
        pages.setdefault(part.class_name or NO_CLASS, []).append(_pattern(part))
    lines = [f"set lifetime = {round(lifetime_s * 1000)}ms"]
    rules = []
    for name, share in shares.items():
        if _PATH.fullmatch(name):
            term = f"<{name}>"
        elif name == NO_CLASS:
            term = name
        elif _NAME.fullmatch(name):
            term = name
            lines.append(f"let {name} = {' | '.join(dict.fromkeys(pages[name]))}")
        else:
            raise Unnameable(f"no rule can name the class '{name}'; use letters, digits, '-' and '_', or a path")
        if (hundredths := math.floor(share * 10_000)) > 0:  # rounded down: at most 100% together
            rules.append(f"{term}.server_resource = {hundredths / 100:g}% hard")
    return "\n".join([*lines, *rules]) + "\n"


def _pattern(part: MixPart) -> str:
    """Pages of a part of the mix; ``*`` stands for the numbers of a range."""
    host, path = split_url(part.before + ("0" if part.numbers else "") + part.after)
    if part.numbers:
        before = split_url(part.before + "0")[1][:-1]
        path = f"{before}*{path[len(before) + 1 :]}"
    return f"<{host}{path.partition('?')[0]}>"
