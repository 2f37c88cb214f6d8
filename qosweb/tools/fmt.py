"""``qosweb fmt``: rewrites specifications in canonical form."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from qosweb.errors import UsageError
from qosweb.webqos.loader import read_source
from qosweb.webqos.syntax.diagnostics import as_json, has_errors, in_order, render
from qosweb.webqos.syntax.parser import parse
from qosweb.webqos.syntax.printer import print_tree

if TYPE_CHECKING:
    from collections.abc import Sequence


def fmt(files: Sequence[str], *, check: bool, to_stdout: bool, as_json_text: bool) -> int:
    """Rewrite the files that are not canonical. Return 1 if a file has errors or, with ``check``, would change."""
    code = 0
    listed: list[dict[str, object]] = []
    for name in files:
        source, unreadable = read_source(name)
        parsed, found = parse(source)
        found = in_order([*unreadable, *found])
        if has_errors(found):
            code = 1
            if as_json_text:
                listed.append({"file": name, "errors": [as_json(source, one) for one in found]})
            else:
                sys.stderr.write(render(source, found))
            continue
        text = print_tree(source, parsed)
        changed = text != source.text
        listed.append({"file": name, "changed": changed})
        if check:
            code = code or int(changed)
            if changed and not as_json_text:
                print(f"{name}: not in canonical form; run: qosweb fmt {name}")
        elif to_stdout or name == "-":
            if not as_json_text:
                sys.stdout.write(text)
        elif changed:
            _replace(Path(name), text)
    if as_json_text:
        print(json.dumps({"files": listed}, indent=2))
    return code


def _replace(path: Path, text: str) -> None:
    """Replace the file atomically."""
    target = path.resolve()
    try:
        mode = target.stat().st_mode
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, delete=False) as file:
            file.write(text)
        os.chmod(file.name, mode & 0o7777)  # noqa: PTH101
        os.replace(file.name, target)  # noqa: PTH105
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
