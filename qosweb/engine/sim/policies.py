"""Policies that simulated clusters switch between: each has features that the others lack, and some shared classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from qosweb.engine.replicated.compiled_policy import CompiledPolicy
from qosweb.webqos import compile_policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES: Sequence[str] = ("/a", "/b", "/now", "/few", "/slow", "elsewhere")
CHANNEL_BPS = 16_384 * 1000 // 160

POLICIES: Sequence[str] = (
    """\
set lifetime = 600ms
set channel = 16KB in 160ms
</a>.server_resource = 25%
</b>.server_resource = 50%
</now>.available = always
</few>.num_requests < 8
""",
    """\
set lifetime = 2s
set channel = 16KB in 160ms
set redirect = never
</b>.server_resource > 30%
</a>.server_resource > 20%
</slow>.lifetime = 5s
</now>.available = always
</now>.in_minority = deny
""",
    """\
set lifetime = 300ms
set channel = 8KB in 40ms
</slow>.server_resource < 10% hard
</a> before </b>
</few>.num_requests < 3
nodes < 3 => </b>.server_resource > 40%
""",
    """\
set lifetime = 1s
set channel = 16KB in 160ms
</now>.available = always
</a>.in_minority = deny
</b>.server_resource < 20%
""",
)

SHARES: Mapping[str, int] = {"/a": 10, "/b": 15, "/c": 20, "/d": 25, "/e": 30}  # percent, of the policy FIVE
FIVE = len(POLICIES)
SAMPLE = FIVE + 1  # the sample site's, by day at any hour
SAMPLE_NIGHT = SAMPLE + 1  # the same by night
SAMPLE_FILE = Path(__file__).parents[2] / "sample_site.webqos"


def _sample_by(rule: str) -> str:
    """The sample site's policy with one of its two rules for free pages, at any hour."""
    lines = SAMPLE_FILE.read_text().splitlines(keepends=True)
    other = "night => " if rule.startswith("not") else "not night => "
    return "".join(line.removeprefix(rule) for line in lines if not line.startswith(("let night", other)))


ALL: Sequence[str] = (
    *POLICIES,
    "set lifetime = 1s\nset channel = 16KB in 160ms\n"
    + "".join(f"<{name}>.server_resource = {share}%\n" for name, share in SHARES.items()),
    _sample_by("not night => "),
    _sample_by("night => "),
)


def policy_of(text: str) -> CompiledPolicy:
    """Compile a policy. Raises ValueError if the text is not a policy."""
    return CompiledPolicy.of_model(text, compile_policy(text, check=False).require_model())
