"""Every replica makes the same model of the same text, whatever its hash seed, and the same shares from it."""

import subprocess
import sys
from pathlib import Path

from tests.support.nodes import environment

SPECS = Path(__file__).parents[2] / "webqos_specs"

PROGRAM = """
import sys
from pathlib import Path
from qosweb.webqos.model.build import build
from qosweb.webqos.model.model import digest
from qosweb.webqos.syntax.places import Source
from tests.webqos.support import shares_of

for path in sorted(Path(sys.argv[1]).rglob("*.webqos")):
    text = path.read_text("utf-8")
    print(path.name, digest(build(Source("x", text)).model), shares_of(text))
"""


def output(seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(SPECS)],
        capture_output=True,
        text=True,
        check=True,
        env=environment({"PYTHONHASHSEED": seed}),
        cwd=Path(__file__).parents[2],
    )
    return done.stdout


def test_models_and_shares_do_not_depend_on_the_hash_seed() -> None:
    first = output("1")
    assert len(first.splitlines()) == len(list(SPECS.rglob("*.webqos")))
    assert first == output("2")
