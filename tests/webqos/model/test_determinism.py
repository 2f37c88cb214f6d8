"""Models and shares do not depend on the hash seed, so all replicas compute the same."""

import subprocess
import sys
from pathlib import Path

from tests.support.nodes import environment

SPECS = Path(__file__).parents[3] / "webqos_specs"

PROGRAM = """
import re
import sys
from pathlib import Path
from qosweb.webqos import compile_policy
from qosweb.webqos.syntax.diagnostics import summary
from qosweb.webqos.model.model import digest
from tests.webqos.support import shares_of

def show(name, text):
    print(name, digest(compile_policy(text, check=False).require_model()), shares_of(text))
    policy = compile_policy(text)
    print(*(summary(policy.source, one) for one in policy.diagnostics))

for path in sorted(Path(sys.argv[1]).rglob("*.webqos")):
    show(path.name, path.read_text("utf-8"))
manual = (Path(sys.argv[1]).parent / "docs" / "reference" / "webqos.md").read_text("utf-8")
for number, text in enumerate(re.findall("```webqos\\n(.*?)```", manual, re.DOTALL)):
    show(f"example {number}", text)
show("overlaps", "".join(f"<{p}>.server_resource < {at + 1}%\\n" for at, p in enumerate(
    ["*.com/a*", "a*.com/*b", "*b*.com:80/*a*", "/*.html", "/x", "/x.html", "/**/y", "/a/**"])))
show("texts", "".join(f'header("X") {t} => </p>.num_bytes < {at + 1}\\n' for at, t in enumerate(
    ['like "a*"', 'like "*b*"', '= "ab"', 'in ("a", "Ab")', 'like "*c"'])))
show("times", "".join(
    f"time in {h}:00..{h + 5}:30 and load > {h}0% => </p{h % 3}>.server_resource > {h}%\\n" for h in range(1, 9)
) + "accessed(</a/b>) within 9s => </q>.server_resource > 40%\\n"
    "not accessed(</a>) within 5s => </q>.server_resource < 30%")
"""


def output(seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(SPECS)],
        capture_output=True,
        text=True,
        check=True,
        env=environment({"PYTHONHASHSEED": seed}),
        cwd=Path(__file__).parents[3],
    )
    return done.stdout


def test_models_and_shares_do_not_depend_on_the_hash_seed() -> None:
    first = output("1")
    assert len(first.splitlines()) > 2 * len(list(SPECS.rglob("*.webqos")))
    assert "contradict" in first
    assert first == output("2")
