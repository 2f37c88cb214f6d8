"""Operator commands for data directories: ``python -m cluster inspect`` and ``python -m cluster recover``.

`recover` lets the remaining disks continue as a new group when the majority is lost for good.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cluster import recovery
from cluster.recovery import CannotRecover
from cluster.runtime.commands import inspection
from cluster.runtime.disk.rows import Recovery
from cluster.runtime.disk.store import Store
from cluster.runtime.disk.store_errors import StoreError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from cluster.recovery import RecoveryPlan


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    inspect = commands.add_parser("inspect", help="show the content of a node's data directory")
    inspect.epilog = """\
examples:
  python -m cluster inspect data/n1
  python -m cluster inspect data/n1 --json"""
    inspect.add_argument("directory", metavar="DIR", type=Path, help="the data directory of a node, running or not")
    inspect.add_argument("--json", action="store_true", help="for programs")
    inspect.add_argument(
        "--entries", type=int, default=inspection.ENTRIES_SHOWN, metavar="N", help="number of entries to show"
    )
    inspect.set_defaults(run=main)
    recover = commands.add_parser(
        "recover",
        help="last resort: continue without a majority that is lost for good",
        description="Continue with these disks as a new group, because the majority of the members is lost for "
        "good. Name the disks of all remaining processes: their entries are kept, entries that only the others had are "
        "lost. The nodes must not be running.",
    )
    recover.epilog = """\
examples:
  python -m cluster recover data/n1
  python -m cluster recover data/n1 data/n2 --yes"""
    recover.add_argument("directories", metavar="DIR", type=Path, nargs="+", help="a remaining data directory")
    recover.add_argument("--yes", action="store_true", help="do not ask")
    recover.set_defaults(run=main)


def main(options: argparse.Namespace) -> int:
    try:
        if options.command == "inspect":
            holding = inspection.inspect(options.directory, max(0, options.entries))
            print(inspection.as_json(holding) if options.json else inspection.as_text(holding))
            return 1 if holding.damage else 0
        return recover(options.directories, print, None if options.yes else _ask)
    except (StoreError, CannotRecover) as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1


def _ask(prompt: str) -> str:
    try:
        return input(prompt)
    except EOFError:
        return ""


def recover(directories: list[Path], write: Callable[[str], None], ask: Callable[[str], str] | None) -> int:
    """Recover a group from these directories. `ask` prompts for confirmation; None skips it."""
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(Store.open_any(directory))) for directory in directories]
        if len({store.me for store in stores}) < len(stores):
            raise CannotRecover(
                "two of these directories belong to one process: one is a copy of the other. Name the later one."
            )
        begun = _interrupted_recovery(stores)
        if begun is not None:
            _finish(stores, begun)
            write(f"finished the recovery of {begun.at}: the group is '{begun.new_cluster_id}' on all these disks now")
            return 0
        plan = recovery.plan_recovery({store.me: store.load() for store in stores})
        leader = next(store for store in stores if store.me == plan.leader)
        write(_warning(stores, plan))
        if (
            ask is not None
            and ask(f"Type the cluster id ({leader.cluster_id}) to continue: ").strip() != leader.cluster_id
        ):
            write("nothing was changed")
            return 1
        mark = Recovery(
            datetime.now(UTC).isoformat(timespec="seconds"),
            leader.cluster_id,
            f"{leader.cluster_id}+{os.urandom(4).hex()}",
            os.urandom(16).hex(),
            plan.view,
            tuple(sorted(store.me for store in stores)),
            plan.given_up,
            plan.position,
            plan.confirmed,
        )
        leader.recover(mark, plan.records)
        _finish(stores, mark)
        write(
            f"done. The group is '{mark.new_cluster_id}' from now on: configure this cluster id in every node that "
            "continues or joins. Nodes with the old id are refused. Nodes that were given up join again with an empty "
            "directory."
        )
        return 0


def _interrupted_recovery(stores: list[Store]) -> Recovery | None:
    """An interrupted recovery that only some of these disks have."""
    ids = {store.cluster_id for store in stores}
    if len(ids) == 1:
        return None
    for store in stores:
        mark = store.recoveries[-1] if store.recoveries else None
        if mark is not None and ids == {mark.old_cluster_id, mark.new_cluster_id}:
            if strangers := [str(one.me) for one in stores if one.me not in mark.kept]:
                raise CannotRecover(
                    f"{' and '.join(strangers)} took no part in the recovery of {mark.at} and cannot be added now. "
                    "Move its directory away: its node joins again as a new process."
                )
            return mark
    raise CannotRecover(
        "these directories belong to different groups: "
        + ", ".join(f"{store.directory} of '{store.cluster_id}'" for store in stores)
    )


def _finish(stores: list[Store], mark: Recovery) -> None:
    for store in stores:
        if store.cluster_id == mark.old_cluster_id:
            store.recover(mark, recovery.follower_records(mark.view))


def _warning(stores: list[Store], plan: RecoveryPlan) -> str:
    others = ", ".join(str(store.me) for store in stores if store.me != plan.leader) or "none"
    lost = ", ".join(map(str, plan.given_up))
    return f"""\
This is the last resort, for a group that has lost the majority of its members for good.

  leads     {plan.leader}: its order ends at {plan.position}, and is known to be confirmed below {plan.confirmed}
  follows   {others}
  given up  {lost}

What may be lost: every entry that the given-up nodes confirmed and that is on none of these disks. The disks cannot
tell whether there is any. Clients may have been told that such entries were committed.

What must be true: the given-up nodes are off and stay off. Nothing on these disks can stop them: if enough of them
come back, they continue as the old group, beside this one. This group gets a new cluster id, so the two never mix.

If more disks remain than those named here, name them too: they cannot be added later. If the others may come back,
wait for them instead. This cannot be undone.
"""
