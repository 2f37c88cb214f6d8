"""Header fields by class of the mix: ``Name: value`` for every request, ``CLASS=Name: value`` for one class. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.trace.request import fault_in_field

if TYPE_CHECKING:
    from collections.abc import Sequence


def parse_headers(texts: Sequence[str], classes: Sequence[str]) -> dict[str, dict[str, str]]:
    """The fields of each class. Fields of a class replace fields of all. Raises ValueError."""
    of_all: dict[str, str] = {}
    of_class: dict[str, dict[str, str]] = {name: {} for name in classes}
    for text in texts:
        class_name, field = _split(text, classes)
        name, colon, value = (part.strip() for part in field.partition(":"))
        if not colon:
            raise ValueError(f"'{text}': write 'Name: value', or 'CLASS=Name: value' for one class of the mix")
        if fault := fault_in_field(name, value):
            raise ValueError(fault)
        fields = of_all if class_name is None else of_class[class_name]
        if name.lower() in map(str.lower, fields):
            whose = "every class" if class_name is None else f"class '{class_name}'"
            raise ValueError(f"{whose} has the field '{name}' twice; give it once")
        fields[name] = value
    return {name: _merged(of_all, fields) for name, fields in of_class.items()}


def _split(text: str, classes: Sequence[str]) -> tuple[str | None, str]:
    for name in sorted(filter(None, classes), key=len, reverse=True):
        if text.startswith(f"{name}="):
            return name, text[len(name) + 1 :]
    unknown, equals, _ = text.partition(":")[0].partition("=")  # no field name contains an equals sign
    if equals:
        known = ", ".join(filter(None, classes)) or "none"
        raise ValueError(f"the mix has no class '{unknown}'; it has {known}")
    return None, text


def _merged(of_all: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    names = {name.lower() for name in own}
    return {**{name: value for name, value in of_all.items() if name.lower() not in names}, **own}
