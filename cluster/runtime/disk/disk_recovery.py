"""Carries out an operator recovery on the disks that remain: opens them, plans, and writes the new group on each.

The first write is on the leader's disk and carries the mark of the recovery. If the command is interrupted between two
disks, the mark on the first shows how to finish.
Above: the commands ``python -m cluster recover`` and ``qosweb recover``.  Below: `cluster.recovery`, `store`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cluster import recovery
from cluster.recovery import CannotRecover
from cluster.runtime.disk.rows import Recovery
from cluster.runtime.disk.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cluster.recovery import RecoveryPlan

SUFFIX = "+"  # separates the name of a cluster from the random part that a recovery adds


@contextmanager
def open_disks(directories: Sequence[Path]) -> Iterator[RemainingDisks]:
    """Open the disks of all remaining processes. Raises StoreError, and CannotRecover if two are of one process."""
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(Store.open_any(directory))) for directory in directories]
        if len({store.me for store in stores}) < len(stores):
            raise CannotRecover(
                "two of these directories belong to one process: one is a copy of the other. Name the later one."
            )
        yield RemainingDisks(stores)


class RemainingDisks:
    """Disks that no process uses, open for a recovery."""

    def __init__(self, stores: list[Store]) -> None:
        self._stores = stores

    @property
    def cluster_id(self) -> str:
        return self._stores[0].cluster_id

    def finish_interrupted(self) -> Recovery | None:
        """Finish a recovery that only some of the disks have; None if there is none. Raises CannotRecover."""
        mark = self._interrupted()
        if mark is not None:
            self._finish(mark)
        return mark

    def plan(self) -> RecoveryPlan:
        """Raises CannotRecover."""
        return recovery.plan_recovery({store.me: store.load() for store in self._stores})

    def carry_out(self, plan: RecoveryPlan) -> Recovery:
        """Write the new group on all disks: the leader's first. Raises StoreError."""
        leader = next(store for store in self._stores if store.me == plan.leader)
        mark = Recovery(
            datetime.now(UTC).isoformat(timespec="seconds"),
            leader.cluster_id,
            f"{leader.cluster_id.partition(SUFFIX)[0]}{SUFFIX}{os.urandom(4).hex()}",
            os.urandom(16).hex(),
            plan.view,
            tuple(sorted(store.me for store in self._stores)),
            plan.given_up,
            plan.position,
            plan.confirmed,
        )
        leader.recover(mark, plan.records)
        self._finish(mark)
        return mark

    def followers(self, plan: RecoveryPlan) -> list[Store]:
        return [store for store in self._stores if store.me != plan.leader]

    def _interrupted(self) -> Recovery | None:
        ids = {store.cluster_id for store in self._stores}
        if len(ids) == 1:
            return None
        for store in self._stores:
            mark = store.recoveries[-1] if store.recoveries else None
            if mark is not None and ids == {mark.old_cluster_id, mark.new_cluster_id}:
                if strangers := [str(one.me) for one in self._stores if one.me not in mark.kept]:
                    raise CannotRecover(
                        f"{' and '.join(strangers)} took no part in the recovery of {mark.at} and cannot be added now. "
                        "Move its directory away: its node joins again as a new process."
                    )
                return mark
        raise CannotRecover(
            "these directories belong to different groups: "
            + ", ".join(f"{store.directory} of '{store.cluster_id}'" for store in self._stores)
        )

    def _finish(self, mark: Recovery) -> None:
        for store in self._stores:
            if store.cluster_id == mark.old_cluster_id:
                store.recover(mark, recovery.follower_records(mark.view))
