"""Architecture tests: allowed imports, pure modules, unique names, forbidden text."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.sim.mutation import Mutant

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parent.parent
PACKAGES = ("qosweb", "cluster", "loadgen")
MIRRORED = (TOP, TOP / "qosweb")  # tests/cluster is for cluster/, tests/server for qosweb/server/

# Pure: a function of its arguments. No clock, no randomness, no files, no sockets, no threads, no event loop.
PURE = (
    "cluster", "qosweb/engine", "qosweb/http", "qosweb/webqos", "qosweb/errors.py", "qosweb/settings.py",
    "qosweb/setting_values.py", "qosweb/units.py", "qosweb/version.py", "qosweb/upstream_settings.py",
    "qosweb/server/proxy/health.py", "qosweb/server/proxy/retry_budget.py",
    "loadgen/send/response_reader.py", "loadgen/results/assertions.py", "loadgen/results/comparison.py",
    "loadgen/experiments/timelines.py",
    "loadgen/experiments/evidence.py", "loadgen/experiments/findings.py", "loadgen/experiments/judging.py",
    "loadgen/experiments/layout.py", "loadgen/experiments/outages.py", "loadgen/experiments/published_figures.py",
    "loadgen/results/histogram.py", "loadgen/options.py", "loadgen/results/outcomes.py", "loadgen/send/think_times.py",
    "loadgen/results/recount.py", "loadgen/results/results.py", "loadgen/send/spread.py", "loadgen/results/summary.py",
    "loadgen/results/tally.py", "loadgen/send/targets.py", "loadgen/trace/arrivals.py", "loadgen/trace/as_log.py",
    "loadgen/trace/class_headers.py", "loadgen/trace/synthetic_spec.py", "loadgen/trace/flash_crowds.py",
    "loadgen/trace/curves.py", "loadgen/trace/transforms.py", "loadgen/trace/logs.py",
    "loadgen/trace/page_mix.py", "loadgen/trace/request.py",
)  # fmt: skip
PURE_BUT_FOR = (
    "cluster/__main__.py",
    "cluster/runtime",
    "qosweb/engine/sim/__main__.py",
    "qosweb/webqos/loader.py",
)  # where the clock, the sockets and the disk are
IMPURE_MODULES = (
    "aiohttp", "asyncio", "concurrent", "contextvars", "http", "multiprocessing", "os", "psutil",
    "queue", "random", "secrets", "selectors", "shutil", "signal", "socket", "socketserver",
    "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib.request",
    "uuid", "uvloop",
)  # fmt: skip
PURE_MAY_USE = frozenset({"urllib.parse"})

# What a package may not import, however deep.
FORBIDDEN_IMPORTS = {
    "cluster": ("qosweb", "loadgen", "aiohttp"),
    "loadgen": (
        "cluster", "qosweb.admission", "qosweb.analytics", "qosweb.blocklist", "qosweb.demo", "qosweb.engine",
        "qosweb.middleware", "qosweb.releases", "qosweb.server", "qosweb.settings",
        "qosweb.setting_values", "qosweb.tools", "qosweb.webqos",
    ),
    "qosweb": ("loadgen", "tests"),
    # Server and middleware both use admission control, and nothing of each other.
    "qosweb/admission": (
        "aiohttp", "qosweb.analytics", "qosweb.cli", "qosweb.demo", "qosweb.middleware", "qosweb.server",
        "qosweb.settings", "qosweb.tools",
    ),
    "qosweb/middleware": ("qosweb.demo", "qosweb.server"),
    "qosweb/server": ("qosweb.middleware",),
}  # fmt: skip
WITHOUT_CYCLES = ("qosweb/admission",)  # packages whose modules do not import each other in a circle, even for types
# Formats that run code when they are read.
UNSAFE_MODULES = ("pickle", "marshal", "shelve", "dill", "cloudpickle")

MAKES_MUTANTS = ("cluster/sim/mutation.py",)  # compiles wrong versions of our own sources, to be caught by tests

LINES_MAX = 600
ENTRY_POINTS = frozenset(
    {
        "qosweb.__main__", "qosweb.cli", "qosweb.engine.sim.__main__",
        "cluster.__main__", "loadgen.__main__", "loadgen.cli",
        "loadgen.run.worker", "qosweb.analytics.spark.session", "qosweb.analytics.spark.submit",
        "qosweb.demo.node_process",
    }
)  # fmt: skip

# Names that no code of the packages refers to, and why they stay.
CALLED_FROM_OUTSIDE = {
    "buffer_updated": "asyncio protocols",
    "connection_lost": "asyncio protocols",
    "connection_made": "asyncio protocols",
    "data_received": "asyncio protocols",
    "eof_received": "asyncio protocols",
    "get_buffer": "asyncio protocols",
    "pause_writing": "asyncio protocols",
    "resume_writing": "asyncio protocols",
    "_fill_text": "argparse",
    "emit": "a logging handler",
    "make_parser": "for shtab; docs/how-to/completion.md shows it",
    "handle_starttag": "html.parser",
    "allocate": "the allocation in one call, for comparison with the reference",
    "dial_again": "a step of scenarios",
    "lose_disk": "a step of scenarios",
}
TRANSITIONS = re.compile(r"cluster/specs/.*_(pre|eff)")  # a specification finds them by the names of actions

# Written in pieces, so that this file does not contain them.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("deb", "debian", "org"),
        ("maven", "org"),
        ("crates", "io"),
    )
)
MACHINE_PATHS = re.compile(
    "|".join((r"/" + r"root/", r"/" + r"home/[a-z]", r"/" + r"Users/[A-Za-z]", r"[A-Z]:\\" + r"\\Users"))
)


def _sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (TOP / package).rglob("*.py"))


SOURCES = _sources()


def _name(path: Path) -> str:
    return str(path.relative_to(TOP))


def _module(path: Path) -> str:
    parts = path.relative_to(TOP).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_pure(path: Path) -> bool:
    return _name(path).startswith(PURE) and not _name(path).startswith(PURE_BUT_FOR)


@cache
def _text(path: Path) -> str:
    return path.read_text("utf-8")


def _mutant_catalogues() -> list[Path]:
    files = [*SOURCES, *sorted((TOP / "tests").rglob("*_catalogue.py"))]
    return [path for path in files if "tuple[Mutant, ...] = (" in _text(path)]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path), str(path))


@cache
def _imports(path: Path) -> frozenset[str]:
    """Every module that ``path`` imports, at any depth of the code, also for types only."""
    found: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_name(path)}:{node.lineno}: imports are absolute here"
            assert node.module is not None
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def _starts_with(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_package_imports_only_what_it_may(path: Path) -> None:
    rules = [names for package, names in FORBIDDEN_IMPORTS.items() if _name(path).startswith(f"{package}/")]
    assert rules
    for module in _imports(path):
        for forbidden in (*(name for names in rules for name in names), *UNSAFE_MODULES):
            assert not _starts_with(module, forbidden), f"{_name(path)} imports {module}"


@pytest.mark.parametrize("package", WITHOUT_CYCLES)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    """Nor for types only."""
    modules = {_module(path): path for path in SOURCES if _name(path).startswith(f"{package}/")}
    assert len(modules) > 1
    order = TopologicalSorter({module: _imports(path) & modules.keys() for module, path in modules.items()})
    order.prepare()  # raises CycleError


@pytest.mark.parametrize("path", [p for p in SOURCES if _is_pure(p)], ids=_name)
def test_pure_parts_are_pure(path: Path) -> None:
    for module in _imports(path):
        if any(_starts_with(module, allowed) for allowed in (*PURE_MAY_USE, *PACKAGES)):
            continue
        impure = [banned for banned in IMPURE_MODULES if _starts_with(module, banned)]
        assert not impure, f"{_name(path)} imports {module}"
    for module in _imports(path):
        if any(_starts_with(module, package) for package in PACKAGES):
            as_path = module.replace(".", "/")
            assert any(as_path.startswith(pure.removesuffix(".py")) for pure in PURE), f"{_name(path)} imports {module}"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(_tree(path)), f"{_name(path)} has no docstring"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_file_holds_one_concept(path: Path) -> None:
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= LINES_MAX, f"{_name(path)} has {lines} lines: which second concept is in it?"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_nothing_runs_text_as_code(path: Path) -> None:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "compile") or _name(path) in MAKES_MUTANTS, (
                f"{_name(path)}:{node.lineno}"
            )


MODULES_MAX = 26
CROWDED = frozenset({"cluster"})  # the algorithm, one file per layer

# One name, one meaning. The exceptions mean the same thing in each place.
SHARED_CLASS_NAMES = frozenset(
    {
        "Above", "Below",  # what a layer of the stack calls in its neighbours
        "And", "Or", "Not", "Has", "Like", "Relative",  # syntax tree and model: before and after names are resolved
    }
)  # fmt: skip


@pytest.mark.parametrize("path", _mutant_catalogues(), ids=_name)
def test_the_text_that_a_mutant_changes_is_there_once(path: Path) -> None:
    mutants = [
        one
        for value in vars(import_module(_module(path))).values()
        if isinstance(value, tuple)
        for one in value
        if isinstance(one, Mutant)
    ]
    assert mutants
    for mutant in mutants:
        count = _text(TOP.joinpath(*mutant.module.split(".")).with_suffix(".py")).count(mutant.was)
        assert count == 1, f"{mutant.name}: {mutant.was!r} occurs {count} times in {mutant.module}"


def test_folders_stay_small() -> None:
    counts = Counter(path.parent for path in SOURCES)
    crowded = {_name(folder): count for folder, count in counts.items() if count > MODULES_MAX}
    assert set(crowded) <= CROWDED, f"more than {MODULES_MAX} modules: {crowded}"


def test_the_map_has_every_folder() -> None:
    text = (TOP / "docs" / "internals" / "architecture.md").read_text("utf-8")
    folders = {path.parent for path in SOURCES}
    missing = [_name(one) for one in folders if f"{one.name}/`" not in text and f"`{_name(one)}/" not in text]
    assert sorted(missing) == []


def test_a_class_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in _tree(path).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(_name(path))
    several = {name: where for name, where in places.items() if len(where) > 1 and name not in SHARED_CLASS_NAMES}
    assert several == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_users_get_type_information(package: str) -> None:
    assert (TOP / package / "py.typed").is_file()
    settings = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    assert "py.typed" in settings["package-data"][package]


def test_no_module_is_dead() -> None:
    used = set().union(*(_imports(path) for path in SOURCES))
    modules = {_module(path) for path in SOURCES if path.name != "__init__.py"}
    assert modules - used - ENTRY_POINTS == set()


class _References:
    """What a module refers to: names, attributes, names of other modules. Not what a definition says of itself."""

    def __init__(self, path: Path) -> None:
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.of_modules: set[tuple[str, str]] = set()  # module and name
        self._imported: dict[str, str] = {}
        self._look_at(_tree(path), ())

    def _look_at(self, node: ast.AST, within: tuple[str, ...]) -> None:
        match node:
            case ast.ImportFrom():
                for alias in node.names:
                    self.of_modules.add((str(node.module), alias.name))
                    self._imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            case ast.Name(id=name, ctx=ast.Load()) if name not in within:
                self.names.add(name)
            case ast.Attribute(value=of, attr=name, ctx=ast.Load()):
                if isinstance(of, ast.Name) and of.id in self._imported:
                    self.of_modules.add((self._imported[of.id], name))
                if name not in within:
                    self.attributes.add(name)
            case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]):
                self.attributes.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                within = (*within, name)
        for child in ast.iter_child_nodes(node):
            self._look_at(child, within)


def _defined(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Functions, classes and constants of a module."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Assign() | ast.AnnAssign():
                stored = node.targets if isinstance(node, ast.Assign) else [node.target]
                for part in (part for target in stored for part in ast.walk(target)):
                    if isinstance(part, ast.Name):
                        yield part.id, node
            case ast.If() | ast.Try():
                yield from _defined(node.body)


def test_no_name_is_dead() -> None:
    """Functions, classes, constants and methods are referred to in the packages; in tests alone is not enough."""
    references = {path: _References(path) for path in SOURCES}
    attributes = set().union(*(one.attributes for one in references.values()))
    of_modules = set().union(*(one.of_modules for one in references.values()))
    for template in (path for package in PACKAGES for path in (TOP / package).rglob("templates/*")):
        attributes.update(re.findall(r"\.(\w+)", template.read_text("utf-8")))
    dead = {}
    for path, here in references.items():
        for name, node in _defined(_tree(path).body):
            if name not in here.names and (_module(path), name) not in of_modules:
                dead[name] = f"{_name(path)}:{node.lineno}: {name}"
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name not in attributes:
                        dead[method.name] = f"{_name(path)}:{method.lineno}: {name}.{method.name}"
    for name, place in list(dead.items()):
        if re.fullmatch("__.*__", name) or TRANSITIONS.fullmatch(place):
            del dead[name]
    found = sorted(dead[name] for name in dead.keys() - CALLED_FROM_OUTSIDE.keys())
    assert not found, "nothing in the packages refers to\n" + "\n".join(found)
    assert CALLED_FROM_OUTSIDE.keys() <= dead.keys(), "a name of the list is referred to: take it from the list"


def test_tests_mirror_the_packages() -> None:
    """A folder of tests has the path of the package under test, but for what all tests share."""
    top = TOP / "tests"
    shared = {"support", "bench", "campaigns", "data", "docs", "examples", "golden", "logs"}
    folders = {path.relative_to(top) for path in top.rglob("*") if path.is_dir() and list(path.glob("test_*.py"))}
    strangers = [
        str(folder)
        for folder in folders
        if not shared & set(folder.parts) and not any((root / folder / "__init__.py").exists() for root in MIRRORED)
    ]
    assert strangers == []
    packages = {path.name for path in (TOP / "qosweb").iterdir() if (path / "__init__.py").exists()}
    assert packages <= {folder.parts[0] for folder in folders if folder.parts}


def _files_of_the_project() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=TOP,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        return [path for name in listed.stdout.decode().split("\0") if name and (path := TOP / name).is_file()]
    skipped = {".venv", "__pycache__", ".git"}
    return [path for path in TOP.rglob("*") if path.is_file() and not skipped & set(path.parts)]


def _configured_hosts() -> set[str]:
    """The hosts that this machine's package client is set up with, whatever they are."""
    texts = [os.environ.get(name, "") for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")]
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    texts.append(listed.stdout)
    hosts = {host for text in texts for host in re.findall(r"https?://(?:[^@/\s']*@)?([^/:\s']+)", text)}
    return hosts - {"localhost", "127.0.0.1"}


def test_no_registry_host_and_no_machine_path_is_in_the_tree() -> None:
    words = (*REGISTRY_HOSTS, *_configured_hosts(), str(TOP) + "/")
    for path in _files_of_the_project():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for word in words:
            assert word not in text, f"{_name(path)} contains {word}"
        found = MACHINE_PATHS.search(text)
        assert found is None, f"{_name(path)} contains {found and found[0]}"


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (TOP / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    names = {re.split(r"[\[<>=!~; ]", line)[0].lower().replace("_", "-") for line in wanted}
    assert names <= pinned, f"not in constraints.txt: {sorted(names - pinned)}; run ./dev lock"
