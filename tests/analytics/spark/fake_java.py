"""A small shell script that answers like a Java would."""

from pathlib import Path


def install(home: Path, script: str) -> Path:
    """Put a script where a home has its java; the home."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return home


def saying(version: str, home: str = "/reported", *, noise: str = "", modules: bool = True) -> str:
    """The answer of a Java of this version; without modules it refuses to add any."""
    refusal = "" if modules else "case $1 in --add-modules*) exit 1 ;; esac\n"
    return (
        f"{refusal}cat_() {{ while IFS= read -r line; do printf '%s\\n' \"$line\"; done }}\n"
        f"cat_ >&2 <<'END'\n{noise}\nProperty settings:\n    java.home = {home}\n    java.vendor = Nobody\n\n"
        f'openjdk version "{version}" 2025-04-15\nOpenJDK Runtime Environment (build {version}+6)\nEND'
    )
