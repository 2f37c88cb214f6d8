"""Results of a run as a file for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from loadgen.errors import UsageError
from loadgen.results.results import FirstLine, Result, request_of
from loadgen.trace.files import lines_of, reading
from loadgen.trace.request import fault_in

if TYPE_CHECKING:
    from collections.abc import Iterator


class RunFile:
    """A file of results for reading: ``facts``, then the results as a stream."""

    def __init__(self, name: str) -> None:
        self.name = name
        with reading(name) as file:
            first = next(lines_of(file, name), (1, b""))[1]
            try:
                self.facts = msgspec.json.decode(first, type=FirstLine).run
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                raise UsageError(
                    f"{name}:1: not the results of a run; they are written by loadgen run --out FILE and begin with "
                    f'{{"run":...}}'
                ) from None

    def results(self) -> Iterator[Result]:
        decoder = msgspec.json.Decoder(Result)
        with reading(self.name) as file:
            for number, line in lines_of(file, self.name):
                if number == 1 or line.isspace():
                    continue
                try:
                    result = decoder.decode(line)
                    fault = fault_in(request_of(result))
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    fault = str(error)
                if fault:
                    raise UsageError(f"{self.name}:{number}: not the result of a request: {fault}")
                yield result
