"""Values of options: read by a function that says what is wrong, told with the option's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from loadgen.errors import UsageError
from loadgen.trace.request import fault_in_field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def read(parse: Callable[[str], T], text: str, option: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def read_fields(lines: Sequence[str], option: str) -> dict[str, str]:
    """Header fields, each written as ``Name: value``."""
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise UsageError(f"{option} '{line}': write it as 'Name: value'")
        fields[name.strip()] = value.strip()
        if fault := fault_in_field(name.strip(), value.strip()):
            raise UsageError(f"{option}: {fault}")
    return fields
