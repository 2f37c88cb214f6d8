"""Service times of requests at one server, summed up by a gateway for the law that sets the server's limit.

A request carries a tag from its start to its end: the decision (epoch) in force when it started, and how many were in
service then. Requests that did not fill the last free slot have epoch `UNLIMITED`: they say nothing about the limit.
A batch has one row of sums per epoch and class. Sums are integers, because batches travel in ordered entries.

A time above `CAP` times the usual time of its class counts as the cap: tails and hangs must not decide a comparison
of means, and a request that has not ended by then can be counted without waiting for it. Failed requests have no
time. Times below `SECONDS_MIN` count as that: a server that responds faster at any level is not to be limited.
Neighbours: `knee` absorbs batches.
"""

from __future__ import annotations

from math import log

import msgspec

UNLIMITED = 0
CAP = 4.0
LN_CAP = log(CAP)
MEAN_OVER = 50  # ends: the window of the running means
DEVIATION_MAX = 4.0  # squared, of ln R: one outlier does not make a class noisy
MICRO = 1_000_000
SAME = 1e-6  # of ln R
SECONDS_MIN = 1e-3  # shorter times count as this: a queue inside a server that no request waits for is no harm
LN_SECONDS_MIN = log(SECONDS_MIN)
LN_OF = (0.0, *map(log, range(1, 1025)))

Tag = tuple[int, int]  # epoch, in service


class SampleRow(msgspec.Struct, array_like=True):
    """Sums over requests of one class that started in one epoch. `ln`, `squares` and `ln_in_service` are millionths."""

    epoch: int
    number: int  # of the class
    started: int = 0
    ended: int = 0
    failed: int = 0
    ln: int = 0  # sum of ln R, R in seconds, capped
    squares: int = 0  # sum of squared deviations of ln R from its running mean
    us: int = 0  # sum of R
    inverse: int = 0  # sum of 1/R, per second
    ln_in_service: int = 0  # sum of ln of the number in service


SampleBatch = tuple[SampleRow, ...]


class _Sums:
    __slots__ = ("ended", "failed", "inverse", "ln", "ln_in_service", "seconds", "shortest", "squares", "started")

    def __init__(self) -> None:
        self.started = self.ended = self.failed = 0
        self.shortest = 0  # ends after at most SECONDS_MIN, which is usual: not in the other sums of times yet
        self.ln = self.squares = self.seconds = self.inverse = self.ln_in_service = 0.0


class Sampler:
    """Collects the samples of one gateway at one server."""

    __slots__ = ("_shortest", "_sums", "_usual", "epoch")

    def __init__(self) -> None:
        self.epoch = 1  # of the decision in force here
        self._sums: dict[tuple[int, int], _Sums] = {}
        self._usual: dict[int, float] = {}  # class: running mean of ln R
        self._shortest: set[int] = set()  # classes whose usual time is SECONDS_MIN

    def start(self, number: int, in_service: int, limited: bool) -> Tag:
        """A request starts; `in_service` includes it, `limited` says that it fills the last free slot."""
        if not limited:
            return (UNLIMITED, in_service)
        epoch = self.epoch
        self._of(epoch, number).started += 1
        return (epoch, in_service)

    def end(self, number: int, seconds: float, tag: Tag) -> None:
        epoch, in_service = tag
        sums = self._sums.get((epoch, number)) or self._of(epoch, number)
        sums.ended += 1
        sums.ln_in_service += LN_OF[in_service] if in_service < len(LN_OF) else log(in_service)
        if seconds <= SECONDS_MIN:
            if number in self._shortest:
                sums.shortest += 1
                return
            seconds, ln = SECONDS_MIN, LN_SECONDS_MIN
        else:
            ln = log(seconds)
        usual = self._usual.get(number, ln)
        off = ln - usual
        if -SAME < off < SAME:
            self._usual[number] = ln
            if ln == LN_SECONDS_MIN:
                self._shortest.add(number)
        else:
            self._shortest.discard(number)
            self._usual[number] = usual = usual + off / MEAN_OVER
            square = off * off
            sums.squares += min(square, DEVIATION_MAX)
        sums.ln += min(ln, usual + LN_CAP)
        sums.seconds += seconds
        sums.inverse += 1 / seconds

    def fail(self, number: int, tag: Tag) -> None:
        """A request ended by an error or a time-out."""
        self._of(tag[0], number).failed += 1

    def withdraw(self, number: int, tag: Tag) -> None:
        """The client of a request left: it says nothing about the server."""
        if tag[0] != UNLIMITED:
            self._of(tag[0], number).started -= 1

    def take(self) -> SampleBatch:
        """The sums since the last call."""
        if not self._sums:
            return ()
        sums, self._sums = self._sums, {}
        for one in sums.values():
            one.ln += one.shortest * LN_SECONDS_MIN
            one.seconds += one.shortest * SECONDS_MIN
            one.inverse += one.shortest / SECONDS_MIN
        return tuple(
            SampleRow(
                epoch, number, one.started, one.ended, one.failed, round(one.ln * MICRO), round(one.squares * MICRO),
                round(one.seconds * MICRO), round(one.inverse), round(one.ln_in_service * MICRO),
            )
            for (epoch, number), one in sums.items()
        )  # fmt: skip

    def forget_classes(self) -> None:
        """The policy changed, and with it the numbers of the classes."""
        self._sums.clear()
        self._usual.clear()
        self._shortest.clear()

    def _of(self, epoch: int, number: int) -> _Sums:
        key = (epoch, number)
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = _Sums()
        return found
