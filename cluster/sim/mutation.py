"""How a layer is made wrong: one piece of its source replaced, compiled, and put in place of what it was.

Only code objects are exchanged, so that instances, subclasses and other modules keep what they hold, and everything can
be put back.
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
    """In `module`, the text `was` (which occurs there once) becomes `becomes`. `wrong` says what that breaks."""

    name: str
    module: str
    was: str
    becomes: str
    wrong: str
    equivalent: str = ""  # why it is the same protocol after all, where it is
    shown_by: int = 0  # a seed that is known to show it, or from which on one soon does

    @property
    def layer(self) -> str:
        return self.module.removeprefix("cluster.")

    def apply(self) -> Callable[[], None]:
        """Make the layer wrong. What is returned makes it right again."""
        module = import_module(self.module)
        source = inspect.getsource(module)
        if source.count(self.was) != 1:
            raise ValueError(f"mutant {self.name}: {self.was!r} is in {self.module} {source.count(self.was)} times")
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
    """The code of every function that a module defines, by qualified name, which getters share with their setters."""
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
