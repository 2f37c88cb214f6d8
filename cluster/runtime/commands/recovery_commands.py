"""Operator commands for data directories: ``python -m cluster inspect`` and ``python -m cluster recover``.

`recover` lets the remaining disks continue as a new group when the majority is lost for good.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.recovery import CannotRecover
from cluster.runtime.commands import inspection
from cluster.runtime.disk.disk_recovery import open_disks
from cluster.runtime.disk.store_errors import StoreError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from cluster.recovery import RecoveryPlan
    from cluster.runtime.disk.disk_recovery import RemainingDisks


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    inspect = commands.add_parser("inspect", help="show the content of a node's data directory")
    inspect.description = (
        "Show whose disk a data directory is, its views, its snapshot and its last entries. Changes nothing."
    )
    inspect.epilog = """\
examples:
  python -m cluster inspect data/n1
  python -m cluster inspect data/n1 --json"""
    inspect.add_argument("directory", metavar="DIR", type=Path, help="the data directory of a node, running or not")
    inspect.add_argument("--json", action="store_true", help="write JSON to standard output, for scripts")
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
    with open_disks(directories) as disks:
        if (begun := disks.finish_interrupted()) is not None:
            write(f"finished the recovery of {begun.at}: the group is '{begun.new_cluster_id}' on all these disks now")
            return 0
        plan = disks.plan()
        write(_warning(disks, plan))
        if (
            ask is not None
            and ask(f"Type the cluster id ({disks.cluster_id}) to continue: ").strip() != disks.cluster_id
        ):
            write("nothing was changed")
            return 1
        mark = disks.carry_out(plan)
        write(
            f"done. The group is '{mark.new_cluster_id}' from now on: configure this cluster id in every node that "
            "continues or joins. Nodes with the old id are refused. Nodes that were given up join again with an empty "
            "directory."
        )
        return 0


def _warning(disks: RemainingDisks, plan: RecoveryPlan) -> str:
    others = ", ".join(str(store.me) for store in disks.followers(plan)) or "none"
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
