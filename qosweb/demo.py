"""``qosweb demo``: the sample site on a node of its own, under its specification."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from qosweb.node.serve import serve
from qosweb.settings import gather

SITE = Path(__file__).parent / "sample_site"
SPEC = Path(__file__).parent / "sample_site.webqos"

PAGES = (
    ("", "the shop's front page, meant to be always available"),
    ("free/", "articles for everybody"),
    ("paid/full/", "the archive for subscribers"),
    ("shop/", "what is for sale"),
    ("checkout/", "where it is paid for, meant to be always available"),
)


def demo(*, listen: str, admin: str) -> int:
    with tempfile.TemporaryDirectory(prefix="qosweb-demo-") as folder:
        log = Path(folder) / "access.log"
        chosen = {
            "root": str(SITE),
            "spec": str(SPEC),
            "name": "demo",
            "listen": listen,
            "admin": admin,
            "access-log": str(log),
        }
        settings = gather(chosen, {}, {}, "")

        def show(url: str, admin_url: str | None) -> None:
            lines = [f"A node serves the sample shop on {url}", ""]
            lines += [f"  {url + path:<38} {what}" for path, what in PAGES]
            if admin_url is not None:
                lines += [
                    "",
                    f"  {admin_url + 'status':<38} how the node is",
                    f"  {admin_url + 'metrics':<38} for Prometheus",
                ]
            lines += [
                f"  {log!s:<38} one line of JSON per request, until the end",
                "",
                f"Every answer names its class (QoS-Class), as {SPEC} says: try curl -i {url}",
                "",
                "Ctrl-C ends it.",
            ]
            print("\n".join(lines), file=sys.stdout, flush=True)

        return serve(settings, show, ends_on_hangup=True)  # the terminal was closed
