"""The command line: help and version; one line on standard error and exit code 2 for invalid input."""

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from qosweb.cli import main
from qosweb.settings import GROUPS, OPTIONS
from qosweb.version import VERSION
from tests.support.nodes import COMMAND, environment, run_command
from tests.support.tls import write_certificate


class Refusal(Protocol):
    def __call__(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> str: ...


def run_process(*command: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, env=environment(env), timeout=60, check=False)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    root = tmp_path / "site"
    root.mkdir()
    (root / "index.html").write_text("<p>hello")
    return root


@pytest.fixture
def refusal(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refusal:
    """Runs a command that must end with 2; returns the one line that it leaves on stderr."""

    def run(*arguments: str | Path, env: Mapping[str, str] | None = None) -> str:
        with monkeypatch.context() as patch:
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            code = main([str(argument) for argument in arguments])
        output, errors = capfd.readouterr()
        assert (code, output) == (2, ""), errors
        assert errors.count("\n") == 1, errors
        assert errors.startswith("qosweb: error: ")
        return errors.removeprefix("qosweb: error: ").rstrip("\n")

    return run


@pytest.fixture
def refused_serve(refusal: Refusal, site: Path) -> Refusal:
    """The same for ``serve``, on free ports and with the site as its root unless the options say otherwise."""
    usual = {"--root": str(site), "--listen": "127.0.0.1:0", "--admin": "127.0.0.1:0", "--access-log": "none"}

    def run(*options: str | Path, env: Mapping[str, str] | None = None) -> str:
        return refusal(
            "serve", *(word for name in usual if name not in options for word in (name, usual[name])), *options, env=env
        )

    return run


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


# What it says of itself


@pytest.mark.parametrize("command", [COMMAND, [str(Path(sys.executable).with_name("qosweb"))]], ids=["-m", "script"])
def test_version(command: list[str]) -> None:
    done = run_process(*command, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"qosweb {VERSION}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_names_the_commands(arguments: tuple[str, ...]) -> None:
    done = run_command(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^ +serve +\S", done.stdout, re.MULTILINE)
    assert re.search(r"^ +demo +\S", done.stdout, re.MULTILINE)


def test_help_of_serve_documents_every_option_with_its_default() -> None:
    done = run_command("serve", "--help", env={"COLUMNS": "100"})
    assert (done.returncode, done.stderr) == (0, "")
    _, _, listed = re.sub(r"\n\n[a-z ]+:\n", "\n", done.stdout.partition("\nexamples:")[0]).partition(
        "--config FILE.toml  "
    )
    entries = {words[0]: " ".join(words) for words in map(str.split, re.split(r"\n  (?=--)", listed))}
    for spec in OPTIONS:
        entry = entries[spec.flag]
        assert entry.startswith(f"{spec.flag} {spec.metavar} {spec.help}".replace("  ", " ")), entry
        if spec.has_default:
            assert entry.endswith(f"({spec.shown_default})"), entry


def test_every_option_of_serve_is_in_one_group() -> None:
    assert sorted(key for _, keys in GROUPS for key in keys) == sorted(spec.key for spec in OPTIONS)


def test_the_shown_defaults_are_the_defaults() -> None:
    for spec in OPTIONS:
        if spec.has_default:
            assert spec.parse(spec.shown_default) == spec.default


@pytest.mark.parametrize("command", [["-m", "cluster"], ["-m", "qosweb", "demo"]], ids=lambda c: c[-1])
def test_help_of_other_commands(command: list[str]) -> None:
    done = run_process(sys.executable, *command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")


def test_help_of_loadgen() -> None:
    done = run_process(str(Path(sys.executable).with_name("loadgen")), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: loadgen")


# What cannot work


def test_unknown_words_come_with_a_suggestion(refusal: Refusal, refused_serve: Refusal) -> None:
    assert refusal("sevre") == "unknown command 'sevre'; did you mean 'serve'?"
    assert refused_serve("--acces-log=x") == "unknown option '--acces-log=x'; did you mean '--access-log'?"
    assert refused_serve("more") == "unexpected argument 'more'"
    assert refusal("demo", "--listen", "x") == "unknown option '--listen'"
    assert refusal("--versoin") == "unknown option '--versoin'; did you mean '--version'?"
    assert refused_serve("--grace") == "argument --grace: expected one argument (see qosweb serve --help)"
    expected = "unknown environment variable QOSWEB_GRAZE; did you mean 'QOSWEB_GRACE'?"
    assert refused_serve(env={"QOSWEB_GRAZE": "1"}) == expected


def test_an_error_stays_on_one_line_whatever_was_given(refusal: Refusal, refused_serve: Refusal) -> None:
    assert refusal("ser\nve\x1b[2J").startswith(r"unknown command 'ser\nve\x1b[2J'")
    assert "a\\nb" in refused_serve("--listen", "a\nb:1")


def test_roots_that_cannot_be_served(refusal: Refusal, refused_serve: Refusal, tmp_path: Path) -> None:
    assert refusal("serve") == (
        "nothing to serve: give the folder with --root DIR, a server with --upstream URL, or --site for releases"
    )
    assert refused_serve("--root", tmp_path / "gone") == f"--root {tmp_path / 'gone'}: there is no such folder"
    (tmp_path / "file").write_text("")
    assert refused_serve("--root", tmp_path / "file") == f"--root {tmp_path / 'file'}: not a folder"


def test_a_root_with_a_name_too_long(refused_serve: Refusal) -> None:
    too_long = "x" * 300
    assert refused_serve("--root", too_long) == f"--root {too_long}: File name too long"


def test_a_port_that_is_taken(refused_serve: Refusal) -> None:
    with taken_port() as port:
        for option in ("--listen", "--admin"):
            message = refused_serve(option, f"127.0.0.1:{port}")
            assert (
                message == f"{option} 127.0.0.1:{port}: Address already in use; choose another with {option} HOST:PORT"
            )


def test_an_address_that_is_not_ours(refused_serve: Refusal) -> None:
    assert refused_serve("--listen", "192.0.2.1:80") == "--listen 192.0.2.1:80: Cannot assign requested address"
    message = refused_serve("--listen", "no-such-host.invalid:80")
    assert message == "--listen no-such-host.invalid:80: no such host"


def test_a_port_that_is_not_permitted(site: Path) -> None:
    without_right = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv (./dev setup --full)")
        without_right = ["setpriv", "--bounding-set=-net_bind_service"]
    first_permitted = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    if first_permitted.exists() and int(first_permitted.read_text()) <= 1:
        pytest.skip("needs ports that are not everybody's (sysctl net.ipv4.ip_unprivileged_port_start)")
    options = ["--root", str(site), "--listen", "127.0.0.1:1", "--admin", "none", "--access-log", "none"]
    done = run_process(*without_right, *COMMAND, "serve", *options)
    assert (done.returncode, done.stderr) == (2, "qosweb: error: --listen 127.0.0.1:1: Permission denied\n")


def test_tls_files_that_cannot_be_used(refused_serve: Refusal, tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path / "right")
    _, other_key = write_certificate(tmp_path / "other")
    _, locked_key = write_certificate(tmp_path / "locked", passphrase=b"secret")
    garbage = tmp_path / "garbage.pem"
    garbage.touch(0o600)
    garbage.write_bytes(b"-----BEGIN CERTIFICATE-----\nno\n\xff")
    gone = tmp_path / "gone.pem"

    def refused(certificate: Path, key: Path) -> str:
        return refused_serve("--tls-cert", certificate, "--tls-key", key)

    assert refused_serve("--tls-cert", certificate).endswith("--tls-key is missing")
    assert refused(gone, key) == f"--tls-cert {gone}: No such file or directory"
    assert refused(certificate, gone) == f"--tls-key {gone}: No such file or directory"
    assert refused(certificate, tmp_path) == f"--tls-key {tmp_path}: Is a directory"
    together = f"--tls-cert {certificate} with --tls-key"
    assert refused(certificate, other_key) == f"{together} {other_key}: the key does not belong to the certificate"
    assert refused(certificate, locked_key).startswith(f"{together} {locked_key}: the key is encrypted")
    assert refused(certificate, garbage).startswith(f"{together} {garbage}: ")
    assert refused(garbage, key).startswith(f"--tls-cert {garbage} with --tls-key {key}: ")


def test_toml_files_that_cannot_be_used(refused_serve: Refusal, tmp_path: Path) -> None:
    file = tmp_path / "q.toml"

    def refused(content: bytes) -> str:
        file.write_bytes(content)
        return refused_serve("--config", file)

    assert refused(b"cahce-size = 1") == f"{file}: unknown key 'cahce-size'; did you mean 'cache-size'?"
    assert refused(b"grace = true") == f"{file}: grace: expected a text or a number, not a boolean"
    assert refused(b'"a\\nb" = 1') == f"{file}: unknown key 'a\\nb'"
    for content in (b"grace = ", b"\xff", b"grace = " + b"9" * 5000, b"grace = " + b"[" * 100_000):
        assert refused(content).startswith(f"--config {file}: not valid TOML: ")
    file.unlink()
    assert refused_serve("--config", file) == f"--config {file}: No such file or directory"
    assert refused_serve(env={"QOSWEB_CONFIG": str(file)}) == f"QOSWEB_CONFIG {file}: No such file or directory"


def test_admin_ports_that_cannot_be_opened(refused_serve: Refusal, tmp_path: Path) -> None:
    token = tmp_path / "token"
    message = refused_serve("--admin", "0.0.0.0:0")
    assert message == "admin address 0.0.0.0:0 is not loopback: it needs --admin-token-file FILE"
    assert refused_serve("--admin-token-file", token) == f"--admin-token-file {token}: No such file or directory"
    token.touch(0o600)
    for content in (b"", b"short", b"with a space in the middle", b"two-lines-of-text\nsecond-line", "ü".encode() * 20):
        token.write_bytes(content)
        message = refused_serve("--admin-token-file", token)
        assert message.endswith("expected one line of 16 or more visible ASCII characters")
    token.write_bytes(b"\xff" * 20)
    assert refused_serve("--admin-token-file", token) == f"--admin-token-file {token}: not a text file"
    token.write_bytes(b"a-token-of-visible-letters")
    for mode in (0o640, 0o604):
        token.chmod(mode)
        message = refused_serve("--admin-token-file", token)
        assert message == f"--admin-token-file {token}: others may read it (mode {mode:04o}); chmod 600 {token}"


def test_logs_that_cannot_be_opened(refused_serve: Refusal, tmp_path: Path) -> None:
    log = tmp_path / "gone" / "access.log"
    assert refused_serve("--access-log", log) == f"--access-log {log}: No such file or directory"
    assert refused_serve("--access-log", tmp_path) == f"--access-log {tmp_path}: Is a directory"


def test_one_line_also_where_few_files_may_be_open(site: Path) -> None:
    """The warning about the limit belongs to a server that runs."""
    with taken_port() as port:
        few_files = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh"]
        options = ["--root", str(site), "--listen", f"127.0.0.1:{port}", "--admin", "none"]
        done = run_process(*few_files, *COMMAND, "serve", *options)
    assert (done.returncode, done.stdout) == (2, "")
    hint = "choose another with --listen HOST:PORT"
    assert done.stderr == f"qosweb: error: --listen 127.0.0.1:{port}: Address already in use; {hint}\n"


def test_an_access_log_that_everybody_could_read(refused_serve: Refusal, tmp_path: Path) -> None:
    """The root of ``refused_serve`` is a folder of its own; the log would be one of its pages."""
    root = tmp_path / "published"
    root.mkdir()
    log = root / "access.log"
    assert refused_serve("--root", root, "--access-log", log).startswith(f"--access-log {log}: is below --root")
    assert not log.exists()


def test_an_access_log_that_another_node_writes(refused_serve: Refusal, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with log.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert refused_serve("--access-log", log) == f"--access-log {log}: another process writes to this file"


def test_the_project_names_both_commands() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"qosweb": "qosweb.cli:main", "loadgen": "loadgen.cli:main"}


@pytest.mark.parametrize("module", ["qosweb", "loadgen", "cluster"])
@pytest.mark.parametrize(("handler", "ends"), [("SIG_DFL", True), ("SIG_IGN", False)])
def test_an_interrupt_during_imports_ends_a_command_without_a_traceback(
    module: str, handler: str, ends: bool, tmp_path: Path
) -> None:
    """A module that every command imports first is replaced by one that gets Ctrl-C."""
    (tmp_path / "argparse.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nos._exit(7)\n")
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, getattr(signal, handler)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT if ends else 7, "")
