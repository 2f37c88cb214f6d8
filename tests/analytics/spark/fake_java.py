"""A small shell script that behaves like `java -version`."""

from pathlib import Path


def install(home: Path, script: str) -> Path:
    """Installs a script as the java of a Java home; returns the home."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return home


def saying(version: str, *, noise: str = "") -> str:
    """A script that prints the version text of this Java version."""
    return (
        "cat_() { while IFS= read -r line; do printf '%s\\n' \"$line\"; done }\n"
        f"cat_ >&2 <<'END'\n{noise}\n"
        f'openjdk version "{version}" 2025-04-15\nOpenJDK Runtime Environment (build {version}+6)\nEND'
    )
