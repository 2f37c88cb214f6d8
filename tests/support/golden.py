"""Golden bytes: encoded values of every format in text files, so that no code change alters a format unnoticed.

A file has a line for each value: its name, then its bytes as a Python literal. Only ``pytest --write-golden`` writes
it, and only adds new values. A line that would change means a changed format: old peers and old disks still have it.
"""

from __future__ import annotations

from ast import literal_eval
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import inspect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path


class Case(NamedTuple):
    """An encoded value, and how to decode it."""

    value: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def check(path: Path, cases: Mapping[str, Case], *, write: bool) -> None:
    """Compare each value with its golden bytes, in both directions. Raises AssertionError."""
    now = {name: case.encode(case.value) for name, case in cases.items()}
    if write:
        path.write_text("".join(f"{name} {data!r}\n" for name, data in now.items()))
    golden = read(path)
    for name, case in cases.items():
        assert name in golden, f"{path.name} has no line for {name}; pytest --write-golden adds it"
        assert now[name] == golden[name], f"the format of {name} has changed"
        found = case.decode(golden[name])
        assert type(found) is type(case.value), f"{name} is read back as {type(found)}"
        assert found == case.value, f"{name} is read back as another value"
    assert golden.keys() == cases.keys(), f"{path.name} has lines for values that no test has"


def read(path: Path) -> dict[str, bytes]:
    """The golden bytes of a file, by name."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {name: literal_eval(literal) for name, _, literal in (line.partition(" ") for line in lines)}


def assert_all_types_occur(roots: Iterable[Any], values: Iterable[Any]) -> None:
    """Every class that is part of these types has an instance in these values."""
    occurring = {type(part) for value in values for part in _parts(value)}
    missing = {kind.__qualname__ for kind in classes_of(roots) - occurring}
    assert not missing, f"no golden value has a {', '.join(sorted(missing))}"


def classes_of(roots: Iterable[Any]) -> set[type]:
    """All structs and named tuples that values of these types may contain."""
    found: set[type] = set()
    waiting: list[object] = list(inspect.multi_type_info(roots))
    while waiting:
        info = waiting.pop()
        if isinstance(info, inspect.StructType | inspect.NamedTupleType):
            if info.cls in found:
                continue
            found.add(info.cls)
        if isinstance(info, tuple):
            waiting.extend(info)
        elif isinstance(info, inspect.Type | inspect.Field):
            waiting.extend(getattr(info, name) for name in info.__struct_fields__)
    return found


def _parts(value: object) -> Iterator[object]:
    """A value and everything that it contains."""
    yield value
    if isinstance(value, msgspec.Struct):
        parts: Iterable[object] = [getattr(value, name) for name in value.__struct_fields__]
    elif isinstance(value, list | tuple):
        parts = value
    elif isinstance(value, dict):
        parts = value.values()
    else:
        return
    for part in parts:
        yield from _parts(part)
