"""Cost of a request to an upstream server by the measure of its class, if that measure is not time.

A response header says the cost as a decimal number of at most 1,000,000,000 with up to three decimals. If it is
missing, comes twice or says something else, the mean of the class is charged. A message says so, once for each class.
Neighbours: `gate` asks when a request leaves its server.  Below: `qosweb.engine.replicated.cost_scale`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qosweb.engine.replicated.cost_scale import AMOUNT_MAX, UNIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qosweb.webqos.policy.terms import Terms

_NUMBER = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,3}))?")
_SHOWN = 60  # characters of a bad value


def read_amount(text: str) -> int | None:
    """The number in thousandths; None: it is no cost."""
    found = _NUMBER.fullmatch(text.strip(" \t"))
    if found is None:
        return None
    amount = int(found[1]) * UNIT + int((found[2] or "").ljust(3, "0"))
    return amount if amount <= AMOUNT_MAX else None


class CostMeasure:
    """Measures requests of one process. `log_message` prints a line for the operator."""

    def __init__(self, log_message: Callable[[str], None]) -> None:
        self._log_message = log_message
        self._logged: set[tuple[str, str]] = set()  # class and header

    def amount(self, name: str, terms: Terms, response_bytes: int, stated: Sequence[str] | None) -> int | None:
        """In thousandths; None: the mean of class `name` counts.

        `stated`: the values of the header, None if there was no response to read it from.
        """
        if terms.cost == "requests":
            return UNIT
        if terms.cost == "bytes":
            return UNIT * response_bytes
        if terms.cost != "header" or stated is None:
            return None
        amount = read_amount(stated[0]) if len(stated) == 1 else None
        header = terms.cost_header or ""
        if amount is None and (name, header) not in self._logged:
            self._logged.add((name, header))
            what = f"says {stated[0][:_SHOWN]!r}" if len(stated) == 1 else "comes twice" if stated else "is missing"
            self._log_message(
                f"the response header {header}, the cost of class {name}, {what}; expected a number from 0 to"
                f" {AMOUNT_MAX // UNIT:,} with up to three decimals. Such requests cost the mean of their class"
            )
        return amount
