"""``qosweb check``: reports errors and warnings in specifications."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from qosweb.units import pluralize
from qosweb.webqos.loader import compile_file
from qosweb.webqos.syntax.diagnostics import as_json

if TYPE_CHECKING:
    from collections.abc import Sequence


def check(files: Sequence[str], *, as_json_text: bool, strict: bool) -> int:
    """Return 0 if no file has errors (with ``strict``: nor warnings), else 1."""
    errors = warnings = 0
    listed: list[dict[str, object]] = []
    for name in files:
        policy = compile_file(name)
        errors += sum(diagnostic.severity == "error" for diagnostic in policy.diagnostics)
        warnings += sum(diagnostic.severity == "warning" for diagnostic in policy.diagnostics)
        if as_json_text:
            listed += [as_json(policy.source, diagnostic) for diagnostic in policy.diagnostics]
        else:
            sys.stdout.write(policy.render_diagnostics())
    if as_json_text:
        print(json.dumps({"errors": errors, "warnings": warnings, "diagnostics": listed}, indent=2))
    elif errors or warnings:
        print(f"{pluralize(errors, 'error')}, {pluralize(warnings, 'warning')}")
    elif sys.stdout.isatty():
        print(f"{pluralize(len(files), 'file')}: no problems found")
    return 1 if errors or (strict and warnings) else 0
