"""Hypothesis strategies for well-formed messages with arbitrary content, as an authenticated faulty peer may send.

For each message type there is a strategy that fills each of its fields. Numbers, names and views are sometimes ones
that are meaningful to the receiver.
"""

from __future__ import annotations

import types
import typing
from typing import Any

import msgspec
from hypothesis import strategies as st

from cluster.entries import APPLICATION, CHECKPOINT, VIEW, Entry, Pack, pack
from cluster.messages import (
    Ack,
    Answers,
    AppMsg,
    Data,
    FwdMsg,
    Hello,
    LinkAck,
    Proposal,
    Resume,
    Supply,
    SyncMsg,
    ViewMsg,
)
from cluster.names import ProcessId, View, ViewId, make_view

PAYLOADS = (ViewMsg, AppMsg, FwdMsg, SyncMsg, Ack, Supply, Resume, Answers)
FRAMES = (Hello, Data, LinkAck, Proposal)

INTS = st.one_of(st.integers(-2, 6), st.integers(0, 200), st.sampled_from((2**31, 2**62, -(2**62))))
MEMBERS = tuple(ProcessId(name) for name in "abc")


class Nonsense:
    """Strategies for a group of a, b and c that is in `view`."""

    def __init__(self, view: View) -> None:
        self.view = view
        stale = make_view(view.id.epoch + 1, dict.fromkeys(MEMBERS, view.id.epoch + 1))
        self._known: dict[Any, st.SearchStrategy[Any]] = {
            int: INTS,
            bool: st.booleans(),
            str: st.one_of(st.sampled_from(("", "x", APPLICATION, CHECKPOINT, VIEW)), st.text(max_size=5)),
            bytes: st.one_of(st.binary(max_size=20), st.just(msgspec.msgpack.encode(view))),
            float: st.floats(allow_nan=False),
            ProcessId: st.one_of(st.sampled_from(MEMBERS), st.builds(ProcessId, st.text(max_size=3), INTS)),
            ViewId: st.one_of(
                st.just(view.id), st.just(stale.id), st.builds(ViewId, INTS, st.sampled_from(("", view.id.digest)))
            ),
            View: st.one_of(
                st.sampled_from((view, stale)),
                st.builds(
                    View,
                    st.deferred(lambda: self.of(ViewId)),
                    st.deferred(lambda: self.of(tuple[ProcessId, ...])),
                    st.lists(INTS, max_size=4).map(tuple),
                ),
            ),
        }

    def of(self, kind: Any) -> st.SearchStrategy[Any]:
        """Any value of this type."""
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = self._make(kind)
        return known

    def _make(self, kind: Any) -> st.SearchStrategy[Any]:
        origin, inside = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Union, types.UnionType):
            return st.one_of(*(self.of(one) for one in inside))
        if kind is type(None):
            return st.none()
        if origin is tuple:
            if inside[-1] is Ellipsis:
                return st.lists(self.of(inside[0]), max_size=4).map(tuple)
            return st.tuples(*(self.of(one) for one in inside))
        if kind is Entry:
            return st.builds(Entry, self.of(str), self.of(bytes))
        if kind is Pack:  # usually a well-formed one
            sound = st.lists(self.of(Entry), max_size=4).map(pack)
            any_other = st.builds(Pack, INTS, self.of(bytes), self.of(tuple[tuple[int, str], ...]))
            return st.one_of(sound, sound, any_other)
        hints = typing.get_type_hints(kind)
        return st.builds(kind, *(self.of(hint) for hint in hints.values()))
