"""Errors that stop a member without a program defect. An operator can act on them; the other members continue."""

from __future__ import annotations


class MemberStops(Exception):
    """Base class: this member cannot continue. Reported without a traceback."""


class DiskRefuses(MemberStops):
    """The disk did not store records that had to be durable. Nothing that depends on them has left this member."""


class StateDiverged(MemberStops):
    """The state of this replica differs from the state of the other replicas."""
