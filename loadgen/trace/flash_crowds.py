"""Flash crowds: multiply the request rate of one class for a while. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from qosweb.units import parse_duration_s, parse_number, parse_positive_duration_s

_FORM = re.compile(r"(?:(?P<class>.+)=)?x(?P<factor>[0-9.]+)@(?P<begin>[0-9.]+[a-z]*)\+(?P<lasting>[0-9.]+[a-z]*)")


class Crowd(NamedTuple):
    """The rate of a class (empty: of all) is ``factor`` times as high from ``begin_s`` to ``end_s``."""

    class_name: str
    factor: float
    begin_s: float
    end_s: float


def parse_crowd(text: str) -> Crowd:
    """``A=x10@50s+20s``: class A, ten times as often, from second 50, for 20 s."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a flash crowd; write CLASS=xFACTOR@BEGIN+DURATION, such as A=x10@50s+20s")
    begin_s = parse_duration_s(match["begin"])
    return Crowd(
        match["class"] or "",
        parse_number(match["factor"], "a factor"),
        begin_s,
        begin_s + parse_positive_duration_s(match["lasting"]),
    )
