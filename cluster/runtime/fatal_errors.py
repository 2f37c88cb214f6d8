"""Why a member stops by itself, in words that need no traceback: others go on without it, and an operator can act."""

from __future__ import annotations


class MemberStops(Exception):
    """Base: this member cannot go on, and nothing is wrong with the program."""


class DiskRefuses(MemberStops):
    """The disk did not take what had to be on it. Nothing that depends on it has left this member."""


class StateDiverged(MemberStops):
    """The state of this replica is not that of the others."""
