"""Parses option values that are not plain numbers: methods, bodies, header fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.trace.request import TOKEN, fault_in_body, fault_in_field
from qosweb.errors import UsageError
from qosweb.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_method(text: str) -> str:
    if not TOKEN.fullmatch(text):
        raise UsageError(f"--method: '{text}' is not the name of an HTTP method, such as GET")
    return text


def read_body(text: str, method: str) -> int | str:
    """A size, or ``@`` and the name of a file."""
    if text == "@":
        raise UsageError("--body: the name of the file is missing; write such as @upload.json")
    try:
        body: int | str = text[1:] if text.startswith("@") else parse_size(text)
    except ValueError:
        raise UsageError(f"--body: '{text}' is neither a size such as 4KB nor a file such as @upload.json") from None
    if fault := fault_in_body(body, method):
        raise UsageError(f"--body: {fault}")
    return body


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
