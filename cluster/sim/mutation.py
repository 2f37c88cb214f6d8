"""Applies a mutant: replaces one piece of a layer's source, compiles it, and swaps the code objects.

Only code objects are swapped, so instances, subclasses and other modules keep their references, and the change can be
undone.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Mutant(msgspec.Struct, frozen=True):
    """In `module`, the text `was` (which occurs once) becomes `becomes`. `wrong` says what that breaks."""

    name: str
    module: str
    was: str
    becomes: str
    wrong: str
    equivalent: str = ""  # why the mutant is an equivalent protocol, if it is
    shown_by: int = 0  # a seed that catches it, or shortly before one that does

    @property
    def layer(self) -> str:
        return self.module.removeprefix("cluster.")

    def apply(self) -> Callable[[], None]:
        """Apply the mutant. Returns a function that undoes it."""
        module = import_module(self.module)
        source = inspect.getsource(module)
        if source.count(self.was) != 1:
            raise ValueError(
                f"mutant {self.name}: {self.was!r} occurs {source.count(self.was)} times in {self.module}, not once"
            )
        changed = compile(source.replace(self.was, self.becomes), str(module.__file__), "exec", dont_inherit=True)
        codes = dict(_codes(changed))
        before: list[tuple[FunctionType, CodeType]] = []
        for function in _functions(module):
            code = codes.get((function.__qualname__, function.__code__.co_argcount))
            if code is not None and code != function.__code__:
                before.append((function, function.__code__))
                function.__code__ = code
        if not before:
            raise ValueError(f"mutant {self.name} changes no function of {self.module}")

        def undo() -> None:
            for function, code in before:
                function.__code__ = code

        return undo


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """The code of every function of a module, by qualified name and index: getters and setters share a name."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield (constant.co_qualname, constant.co_argcount), constant
            yield from _codes(constant)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    for thing in vars(module).values():
        if getattr(thing, "__module__", None) != module.__name__:
            continue
        if isinstance(thing, FunctionType):
            yield thing
        elif isinstance(thing, type):
            for member in vars(thing).values():
                function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if isinstance(function, FunctionType):
                    yield function
