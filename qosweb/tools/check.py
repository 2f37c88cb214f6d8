"""``qosweb check``: everything that is wrong with specifications, and what is legal but surprising."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from qosweb.webqos.check.check import check_source
from qosweb.webqos.loader import count, read_source
from qosweb.webqos.syntax.diagnostics import as_json, in_order, render

if TYPE_CHECKING:
    from collections.abc import Sequence


def check(files: Sequence[str], *, as_json_text: bool, strict: bool) -> int:
    """0 if no file has errors (with ``strict``: nor warnings), else 1."""
    errors = warnings = 0
    listed: list[dict[str, object]] = []
    for name in files:
        source, unreadable = read_source(name)
        found = in_order([*unreadable, *([] if unreadable else check_source(source))])
        errors += sum(one.severity == "error" for one in found)
        warnings += sum(one.severity == "warning" for one in found)
        if as_json_text:
            listed += [as_json(source, one) for one in found]
        else:
            sys.stdout.write(render(source, found))
    if as_json_text:
        print(json.dumps({"errors": errors, "warnings": warnings, "diagnostics": listed}, indent=2))
    elif errors or warnings:
        print(f"{count(errors, 'error')}, {count(warnings, 'warning')}")
    elif sys.stdout.isatty():
        print(f"{count(len(files), 'file')}, no mistakes")
    return 1 if errors or (strict and warnings) else 0
