"""Checks that matplotlib is installed, an optional dependency (extra ``plots``)."""

from __future__ import annotations

from importlib.util import find_spec

from qosweb.errors import UsageError


def need_matplotlib(what: str) -> None:
    """Raise UsageError if matplotlib is missing; ``what`` names the option that needs it."""
    if find_spec("matplotlib") is None:
        raise UsageError(f"{what} needs matplotlib. Run `pip install 'qosweb[plots]'`.")
