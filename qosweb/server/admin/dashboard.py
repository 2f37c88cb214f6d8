"""Dashboard: one self-contained HTML page that polls ``/status`` of its node.

Its Content-Security-Policy allows only the page's own script and style, by their digests.
Neighbours: `admin` serves it; `dashboard.html` is the page.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

PAGE = Path(__file__).with_name("dashboard.html")


@cache
def dashboard() -> tuple[str, dict[str, str]]:
    """The page and its header fields."""
    text = PAGE.read_text("utf-8")
    policy = (
        f"default-src 'none'; connect-src 'self'; img-src data:; script-src {_digest(text, 'script')}; "
        f"style-src {_digest(text, 'style')}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "Vary": "Accept",
    }


def _digest(text: str, element: str) -> str:
    found = re.search(f"<{element}>(.*?)</{element}>", text, re.DOTALL)
    assert found is not None
    return f"'sha256-{base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()}'"
