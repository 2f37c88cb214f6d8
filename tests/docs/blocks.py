"""Code blocks of the documentation, and a shell session that runs those of one page.

The language of a block says what it is:

- ``sh``: commands. They run in order, in one folder per page.
- ``python``: a program. It runs like a command; with ``title="NAME"`` it is a file.
- ``text``, ``json``, ``bnf``: output, or an illustration.
- others (``webqos``, ``toml``, ``ini``, ``yaml``, ``html``): a file with ``title="NAME"``, else an illustration.

A comment on the line before a block changes that:

- ``<!-- not run: REASON -->``: commands that a test cannot run. Their options are checked all the same.
- ``<!-- background: PORT ... -->``: commands that go on running; the next block starts when the ports respond.
- ``<!-- wait: PORT ... -->``: commands that start servers with ``&``; the next block starts when the ports respond.
- ``<!-- exit codes: N ... -->``: the commands may, or must, end with another code than 0.
- ``<!-- exact output -->``: the output of the block before, compared line by line, without blanks at the ends.
- ``<!-- similar output -->``: the same, but numbers, ids and host names may differ.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
DOCS = TOP / "docs"
PAGES = sorted([TOP / "README.md", *DOCS.rglob("*.md")])
OUTPUT = ("text", "json", "bnf")
FILES = ("webqos", "toml", "ini", "yaml", "html")
_FENCE = re.compile(
    r"^(?P<indent> *)(?:<!-- (?P<mark>[^\n]*?) -->\n *)?```(?P<language>\w*)(?P<attributes>[^\n`]*)\n"
    r"(?P<code>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([^"]+)"')
_INCLUDE = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    mark: str
    code: str
    line: int

    @property
    def not_run(self) -> str:
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else ""

    @property
    def ports(self) -> list[str] | None:
        """The ports to wait for, if the block runs in the background."""
        return self.mark.removeprefix("background:").split() if self.mark.startswith("background:") else None

    @property
    def awaited(self) -> list[str]:
        """The ports to wait for after the block."""
        return self.mark.removeprefix("wait:").split() if self.mark.startswith("wait:") else self.ports or []

    @property
    def codes(self) -> list[str]:
        """The exit codes that are right."""
        return self.mark.removeprefix("exit codes:").split() if self.mark.startswith("exit codes:") else ["0"]

    @property
    def is_run(self) -> bool:
        return not self.not_run and (self.language == "sh" or (self.language == "python" and not self.title))


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(
            match["language"],
            found[1] if (found := _TITLE.search(match["attributes"])) else "",
            match["mark"] or "",
            _INCLUDE.sub(_included, textwrap.dedent(match["code"])),
            text.count("\n", 0, match.start()) + 1,
        )
        for match in _FENCE.finditer(text)
    ]


def _included(match: re.Match[str]) -> str:
    return (TOP / match[1]).read_text("utf-8").rstrip("\n")


WAIT_FOR_PORTS = """\
import sys, time, urllib.error, urllib.request
for port in sys.argv[1:]:
    deadline = time.monotonic() + 40
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).read()
        except urllib.error.HTTPError as error:
            if error.code != 503:
                break
        except OSError:
            pass
        else:
            break
        if time.monotonic() > deadline:
            sys.exit(f"port {port} does not respond")
        time.sleep(0.05)
"""


@cache
def namespace_command() -> list[str] | None:
    """Runs a command in namespaces of its own, so that the ports of the documentation are free; None: not allowed."""
    own = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]  # all processes end with the first
    for options in (own, ["--user", "--map-root-user", *own]):
        command = ["unshare", *options, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if (
            shutil.which("unshare")
            and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
        ):
            return command
    return None


def script_of(blocks: list[Block], folder: Path) -> str:
    """A bash script that runs the blocks. The output of block N is in ``.out-N``; ``.at`` has the block that runs."""
    lines = [
        "set -e -m -o pipefail; background=()",
        f"cd {shlex.quote(str(folder))}",
    ]
    (folder / ".wait.py").write_text(WAIT_FOR_PORTS)
    for number, block in enumerate(blocks):
        if number and block.line < blocks[number - 1].line:  # the next page: what ran in the background was stopped
            lines.append('for one in "${background[@]}"; do kill -- "-$one"; wait "$one" || true; done; background=()')
        out = shlex.quote(str(folder / f".out-{number}"))
        lines.append(f"echo {number} > {shlex.quote(str(folder / '.at'))}")
        if block.title and not block.not_run:
            path = folder / ".files" / str(number)
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.code)
            target = shlex.quote(block.title)
            lines.append(f'mkdir -p "$(dirname {target})" && cp {shlex.quote(str(path))} {target}')
        elif block.is_run and block.language == "python":
            program = folder / f".block-{number}.py"
            program.write_text(block.code)
            lines.append(f"PYTHONPATH=. python {shlex.quote(str(program))} > {out}")
        elif block.is_run and block.ports is not None:
            lines.append(f"{{\n{block.code}}} > {out} 2>&1 &\nbackground+=($!)")
        elif block.is_run and block.codes != ["0"]:
            right = " || ".join(f"[ $code = {code} ]" for code in block.codes)
            lines.append(f"code=0; {{\n{block.code}}} > {out} || code=$?\n{right}")
        elif block.is_run:
            lines.append(f"{{\n{block.code}}} > {out}")
        if block.awaited and not block.not_run:
            lines.append(f"python {shlex.quote(str(folder / '.wait.py'))} {' '.join(block.awaited)}")
    return "\n".join(lines) + "\n"


def run_pages(pages: list[Path], folder: Path, timeout_s: float = 120) -> list[tuple[Path, Block, str]]:
    """Run the blocks of pages in one shell; returns each with what it printed. Fails with the line that failed."""
    command = namespace_command()
    assert command is not None
    listed = [(page, block) for page in pages for block in blocks_of(page)]
    script = folder / ".page.sh"
    script.write_text(script_of([block for _, block in listed], folder))
    path = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    with (folder / ".errors").open("w") as errors:
        process = subprocess.Popen(
            [*command, "env", f"PATH={path}", "COLUMNS=120", f"HOME={folder}", "bash", str(script)],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    outputs = [out.read_text() if (out := folder / f".out-{n}").exists() else "" for n in range(len(listed))]
    if code != 0:
        at = int((folder / ".at").read_text())
        page, block = listed[at]
        raise AssertionError(
            f"{page.relative_to(TOP)}:{block.line} {'timed out' if code == -1 else f'failed ({code})'}\n"
            f"{outputs[at]}\n{(folder / '.errors').read_text()[-3000:]}"
        )
    return [(page, block, output) for (page, block), output in zip(listed, outputs, strict=True)]
