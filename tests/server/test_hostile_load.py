"""Hostile clients: an honest client at another address is served promptly, whatever they do.

All attacks run at once, each from one address, against limits that they exceed. Without limits for each client, the
honest client would wait for tens of seconds, or get errors. `./dev campaign hostile` runs each attack alone, at full
size, and judges ratios.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.application import Application, upstream_options
from tests.support.honest import quantile, waits_s
from tests.support.hostile import ATTACKS, Attackers
from tests.support.misbehaving import free_port
from tests.support.nodes import RunningNode
from tests.support.tls import client_context, write_certificate
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timing

EACH = 30  # connections of an attack: as many as exhaust the limits if one client may
LIMITS = ["--upstream-connections", "24", "--max-open-files", "24", "--max-connections", "2000"]
ASKED = 60
SLOW_S = 1.0  # for a loaded machine; an attack that works makes it 10 s or an error


@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("is_proxy", [False, True], ids=["files", "proxy"])
def test_an_honest_client_is_served(tmp_path: Path, *, is_proxy: bool, has_tls: bool) -> None:
    certificate, key = write_certificate(tmp_path / "tls")
    tls = client_context(certificate) if has_tls else None
    options = [*LIMITS, *(["--tls-cert", str(certificate), "--tls-key", str(key)] if has_tls else [])]
    with ExitStack() as stack:
        if is_proxy:
            options += upstream_options(stack.enter_context(Application(free_port())))
        node = stack.enter_context(RunningNode(None if is_proxy else site(tmp_path), tmp_path, *options))
        normal = waits_s(node.port, ASKED, tls=tls)
        with Attackers(node.port, EACH, ATTACKS, ca=certificate if has_tls else None) as attackers:
            assert node.metric("qosweb_connections") > EACH
            attacked = waits_s(node.port, ASKED, tls=tls)
        assert all(attackers.opened[name] >= EACH for name in ATTACKS), attackers.opened
        assert quantile(attacked, 0.9) < max(SLOW_S, 4 * quantile(normal, 0.9)), (normal, attacked)
        wait_for(lambda: node.metric("qosweb_requests_in_service") == 0 or None, "the end of the attack")
        assert not any("internal error" in line for line in node.stderr), node.stderr


def site(folder: Path) -> Path:
    root = folder / "site"
    root.mkdir()
    (root / "page").write_bytes(b"x" * 1024)
    (root / "large").write_bytes(bytes(8 << 20))
    return root
