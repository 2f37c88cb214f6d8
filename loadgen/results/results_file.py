"""Reads the files that a run has written: its results, line by line, and its summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from loadgen.results.recount import recount
from loadgen.results.results import FirstLine, Result, request_of
from loadgen.results.summary import RunSummary
from loadgen.trace.files import lines_of, reading
from loadgen.trace.request import fault_in
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUMMARY_LEN_MAX = 64 << 20


class RunFile:
    """A results file: ``facts`` describes the run, ``results()`` reads the results one by one."""

    def __init__(self, name: str) -> None:
        self.name = name
        with reading(name) as file:
            first = next(lines_of(file, name), (1, b""))[1]
            try:
                self.facts = msgspec.json.decode(first, type=FirstLine).run
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                raise UsageError(
                    f'{name}:1: not a results file; loadgen run --out FILE writes one, and it begins with {{"run":...}}'
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


def read_summary(name: str) -> RunSummary:
    """The summary of a run from either of its files: the results, or the summary itself."""
    with reading(name) as file:
        start = file.read(200).lstrip()
        if not start.startswith(b'{"run"'):
            text = start + file.read(_SUMMARY_LEN_MAX)
            try:
                return msgspec.json.decode(text, type=RunSummary)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise UsageError(
                    f"{name}: neither results nor a summary of a run ({error}); loadgen run writes them with "
                    f"--out FILE or --summary FILE"
                ) from None
    run = RunFile(name)
    return recount(run.facts, run.results())
