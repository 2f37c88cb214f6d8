"""``qosweb recover``: lets a cluster that lost the majority of its nodes for good continue from the disks that remain.

The node then starts again with its old options: its disk has the new cluster id. Nodes that join need it as an option.
Neighbours: `cluster.runtime.disk.disk_recovery` reads and writes the disks, `cluster.recovery` explains why it is safe.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cluster.recovery import CannotRecover
from cluster.runtime.disk.database_file import FILE
from cluster.runtime.disk.disk_recovery import open_disks
from cluster.runtime.disk.store_errors import DiskInUse, StoreError
from qosweb.errors import UsageError
from qosweb.server.cluster.membership import GROUP_FOLDER

if TYPE_CHECKING:
    import argparse

    from cluster.recovery import RecoveryPlan
    from cluster.runtime.disk.disk_recovery import RemainingDisks

_EXIT_DONE, _EXIT_DECLINED = 0, 1


def recover(arguments: argparse.Namespace) -> int:
    """Return 0 if the disks continue as a new cluster, 1 if the operator declined. Raises UsageError."""
    directories = [_group_directory(Path(name)) for name in arguments.data_dir]
    try:
        with open_disks(directories) as disks:
            return _recover(disks, ask=not arguments.yes)
    except DiskInUse as error:
        raise UsageError(
            f"{error.directory.parent}: a node is running on it, process {error.holder}: stop it first"
        ) from None
    except (StoreError, CannotRecover) as error:
        raise UsageError(str(error)) from None


def _recover(disks: RemainingDisks, *, ask: bool) -> int:
    if (begun := disks.finish_interrupted()) is not None:
        print(f"finished the recovery of {begun.at}\n\n{_next_steps(begun.new_cluster_id)}")
        return _EXIT_DONE
    plan = disks.plan()
    print(_warning(disks, plan))
    if ask and not _is_confirmed(disks.cluster_id):
        print("nothing was changed")
        return _EXIT_DECLINED
    print(_next_steps(disks.carry_out(plan).new_cluster_id))
    return _EXIT_DONE


def _group_directory(data: Path) -> Path:
    """The folder of the group's disk in a node's ``--data-dir``. Raises UsageError if there is none."""
    group = data / GROUP_FOLDER
    if (group / FILE).exists():
        return group
    if not data.exists():
        raise UsageError(f"--data-dir {data}: no such directory")
    if not data.is_dir():
        raise UsageError(f"--data-dir {data}: is not a directory")
    if (data / FILE).exists():
        raise UsageError(f"--data-dir {data}: is a part of a node's data directory; give its parent, {data.parent}")
    raise UsageError(f"--data-dir {data}: is not the --data-dir of a cluster's node: it has no {GROUP_FOLDER}/{FILE}")


def _is_confirmed(cluster_id: str) -> bool:
    try:
        answer = input(f"Type the cluster id ({cluster_id}) to continue: ")
    except EOFError:
        answer = ""
    if not answer:
        print()
    return answer.strip() == cluster_id


def _warning(disks: RemainingDisks, plan: RecoveryPlan) -> str:
    follow = ", ".join(store.me.name for store in disks.followers(plan)) or "no other node"
    given_up = ", ".join(process.name for process in plan.given_up)
    return f"""\
This is the last resort, for a cluster that has lost the majority of its nodes for good.

  continues  {plan.leader.name}, with the decisions of the cluster up to position {plan.position} of its order
  follows    {follow}
  given up   {given_up}

What may be lost: decisions that the given-up nodes made without the nodes that continue. The disks cannot tell whether
there are any. Policy changes are such decisions: check the policy after the start (qosweb status), and reload the right
one if this is an older one. Requests that waited at the given-up nodes are lost in any case. Pages and access logs are
not affected.

What must be true: the given-up nodes are off and stay off until their data directories are removed. This command cannot
stop them: if enough of them come back, they continue as the old cluster, beside this one.

If more data directories remain, copy them here and name all of them: their nodes cannot be added later, except as new
nodes. If the others may come back, wait for them instead. This cannot be undone.
"""


def _next_steps(cluster_id: str) -> str:
    return f"""\
Done. The cluster id is {cluster_id} from now on.

  1. Start the node with the options that it had before: its disk has the new id.
  2. Check the policy: qosweb status
  3. Let other nodes join, each with an empty --data-dir, with --join and with
     --cluster-id {cluster_id}
"""
